"""What a checkpoint holds, checked before a run goes on from it: every value of the kind that belongs in its place."""

from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from torch import Tensor

from sojourn.errors import UnreadableFile
from sojourn.shown import quoted
from sojourn.values import LARGEST


def check(tree: Any, kinds: dict[str, Any]) -> None:
    """Refuse a tree that lacks one of these keys, or has something else there."""
    for key, kind in kinds.items():
        if not isinstance(tree, dict) or key not in tree or not fits(tree[key], kind):
            found = quoted(tree.get(key)) if isinstance(tree, dict) else quoted(tree)
            raise UnreadableFile(f"the checkpoint is none of this run: {key} must be of another kind than {found}")


def fits(value: Any, kind: Any) -> bool:
    """Whether a value is what an annotation says, down to the fields of named tuples.

    >>> fits({3: (1, 2.0)}, dict[int, tuple[int, float]]), fits((1, "x"), tuple[int, ...]), fits(None, int | None)
    (True, False, True)
    """
    origin, inside = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in inside)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        each = inside[:1] * len(value) if inside[-1] is Ellipsis else inside
        return len(each) == len(value) and all(map(fits, value, each))
    if origin is dict:
        return isinstance(value, dict) and all(fits(k, inside[0]) and fits(v, inside[1]) for k, v in value.items())
    if isinstance(kind, type) and hasattr(kind, "_fields"):
        return type(value) is kind and all(fits(getattr(value, k), one) for k, one in get_type_hints(kind).items())
    if kind is float:
        return isinstance(value, float | int) and not isinstance(value, bool)
    if kind is int:
        return type(value) is int and abs(value) <= LARGEST
    return kind not in (str, bool, NoneType, Tensor) or type(value) is kind
