"""The contents of a frozen object cannot be changed either: arrays are read-only views, mappings refuse changes.

Nothing is copied. The object holds a read-only view; the array that was passed in stays as writable as it was.
"""

from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

Kind = TypeVar("Kind", bound=np.generic)


class ReadOnly(dict[str, Any]):
    """A dict that refuses changes; unlike a MappingProxyType it can be pickled, copied and written as JSON.

    >>> ReadOnly(a=1)["a"], ReadOnly(a=1) == {"a": 1}
    (1, True)
    """

    def _refuse(self, *_arguments: Any, **_options: Any) -> NoReturn:
        raise TypeError("this mapping belongs to an object that cannot change; make a dict of it and change that")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return ReadOnly, (dict(self),)


def read_only(array: NDArray[Kind]) -> NDArray[Kind]:
    """Return a read-only view of an array."""
    view = array.view()
    view.flags.writeable = False
    return view


def frozen(value: Any) -> Any:
    """Return a value with everything inside it read-only: arrays, mappings, and lists (which become tuples).

    >>> frozen({"staleness": [1.0, 2.0]})
    {'staleness': (1.0, 2.0)}
    """
    if isinstance(value, np.ndarray):
        return read_only(value)
    if isinstance(value, Mapping):
        return ReadOnly({key: frozen(one) for key, one in value.items()})
    if isinstance(value, list):
        return tuple(frozen(one) for one in value)
    return value


class Frozen:
    """Base of dataclasses whose arrays and mappings stay read-only after pickling and copying."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({key: frozen(value) for key, value in state.items()})
