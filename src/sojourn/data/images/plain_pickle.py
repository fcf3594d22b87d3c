"""Pickles of bytes, numbers, lists, dicts and arrays of bytes; anything else is refused, nothing is executed."""

import io
import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray


def load_plain(content: bytes) -> Any:
    """Read a pickle, Python 2's too; a pickle that names anything but NumPy's arrays of bytes is an UnpicklingError.

    >>> load_plain(pickle.dumps({"a": [1, 2]}))
    {'a': [1, 2]}
    >>> load_plain(pickle.dumps(print))
    Traceback (most recent call last):
    _pickle.UnpicklingError: the pickle asks for builtins.print, which no file of this dataset needs
    """
    return _arrays(_Plain(io.BytesIO(content), encoding="bytes").load())


class _Array:
    """Stands for numpy.ndarray."""

    def __init__(self) -> None:
        self.values: NDArray[np.uint8] = np.empty(0, dtype=np.uint8)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, by_columns, content = state
        if not isinstance(kind, _Kind) or not isinstance(content, bytes):
            raise pickle.UnpicklingError("the pickle holds an array that is not of bytes")
        order = "F" if by_columns else "C"
        self.values = np.frombuffer(content, dtype=np.uint8).reshape(shape, order=order)  # type: ignore[call-overload]


class _Kind:
    """Stands for numpy.dtype, of which only bytes are admitted."""

    def __init__(self, code: bytes | str, *_: Any) -> None:
        if code not in (b"u1", "u1"):
            raise pickle.UnpicklingError(f"the pickle holds an array of {code!r}, only bytes are read")

    def __setstate__(self, state: Any) -> None:
        """Byte order, which bytes do not have."""


def _begin(*_: Any) -> _Array:
    return _Array()


def _encoded(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes for Python 2."""
    if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError(f"the pickle encodes by {encoding!r}, only latin1 is read")
    return text.encode("latin1")


_ADMITTED = {
    ("numpy.core.multiarray", "_reconstruct"): _begin,
    ("numpy._core.multiarray", "_reconstruct"): _begin,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Kind,
    ("_codecs", "encode"): _encoded,
}


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"the pickle asks for {module}.{name}, which no file of this dataset needs"
            ) from None


def _arrays(value: Any) -> Any:
    """With the arrays in place of their stand-ins."""
    if isinstance(value, dict):
        return {key: one.values if isinstance(one, _Array) else one for key, one in value.items()}
    return value.values if isinstance(value, _Array) else value
