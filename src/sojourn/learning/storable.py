"""What a checkpoint may hold: a closed list of named tuples, and values of the right type in every place.

A checkpoint is data: classes that it names are looked up here, and never imported. Classes have short names, which stay
the same when code moves. An algorithm declares the classes of its state and of its clients' memory where it defines
them:

    @storable("myalgorithm.state")
    class State(NamedTuple):
        ...
"""

from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from torch import Tensor

from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.shown import quoted
from sojourn.values import LARGEST

# modules of classes in older checkpoints, which named them by module; one after the other
_MOVED = {
    "sojourn.train.algorithms.": "sojourn.learning.algorithms.",
    "sojourn.train.": "sojourn.learning.replay.",
    "sojourn.learning.replay.replay:Pinned": "sojourn.learning.replay.server:Pinned",
}
Kind = TypeVar("Kind", bound=type)

_BY_NAME: dict[str, type] = {}
_NAMES: dict[type, str] = {}
_RENAMED: dict[type, dict[str, str]] = {}


def storable(name: str, renamed: Mapping[str, str] | None = None) -> Callable[[Kind], Kind]:
    """Class decorator: declare a NamedTuple that checkpoints may hold, under a unique name.

    `renamed` maps names of its fields in older checkpoints to the present names.
    """

    def declare(kind: Kind) -> Kind:
        home = f"{kind.__module__}:{kind.__qualname__}"
        before = _BY_NAME.get(name)
        if before is not None and f"{before.__module__}:{before.__qualname__}" != home:
            raise InvalidInput(
                f"the name '{name}' in checkpoints already belongs to {before.__module__}; choose another"
            )
        if not (issubclass(kind, tuple) and hasattr(kind, "_fields")):
            raise InvalidInput(f"only a NamedTuple can be storable, {kind.__name__} is not one; make it one")
        _BY_NAME[name] = _BY_NAME[home] = kind  # also under its module, as in older checkpoints
        _NAMES[kind] = name
        _RENAMED[kind] = dict(renamed or {})
        return kind

    return declare


def name_of(value: Any) -> str:
    """Return the name of a value's class in a checkpoint."""
    kind = type(value)
    if kind not in _NAMES:
        raise InvalidInput(
            f"a checkpoint cannot hold {kind.__module__}:{kind.__qualname__}, which is not declared; "
            f'write @storable("{kind.__module__}.{kind.__qualname__.lower()}") above the class'
        )
    return _NAMES[kind]


def class_of(name: str) -> type:
    """Return the class of a name in a checkpoint; raise an error if it is not declared. Nothing is imported."""
    for before, now in _MOVED.items():
        if name.startswith(before):
            name = now + name.removeprefix(before)
    if name not in _BY_NAME:
        raise ValueError(f"it names the class {name!r}, which no algorithm here has declared")
    return _BY_NAME[name]


def restored(name: str, fields: Mapping[str, Any]) -> Any:
    """Make a value of the class with this name, from its fields."""
    kind = class_of(name)
    renamed = _RENAMED[kind]
    return kind(**{renamed.get(key, key): value for key, value in fields.items()})


def check(tree: Any, kinds: dict[str, Any]) -> None:
    """Raise an error if a tree lacks one of these keys, or has a value of another type there."""
    for key, kind in kinds.items():
        if not isinstance(tree, dict) or key not in tree or not fits(tree[key], kind):
            found = quoted(tree.get(key)) if isinstance(tree, dict) else quoted(tree)
            raise UnreadableFile(
                f"the checkpoint does not belong to this run: {key} must be of another kind than {found}"
            )


def fits(value: Any, kind: Any) -> bool:
    """Whether a value has the type of an annotation, down to the fields of named tuples.

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
