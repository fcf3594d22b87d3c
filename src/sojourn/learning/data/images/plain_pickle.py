"""Read pickles of bytes, text, numbers, lists, dicts and arrays of bytes without Python's unpickler.

Nothing is executed. The time of each instruction is bounded by its bytes, and the number of instructions is limited; so
time and memory stay bounded whatever the file contains. A few hundred bytes, with nested tuples as the key of a dict,
can keep Python's own unpickler busy for ever.
"""

import pickle
import pickletools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST = 1_000_000  # most instructions; an official batch has about 50,000


def load_plain(content: bytes) -> Any:
    """Read a pickle, Python 2's too; a pickle that names anything but NumPy's arrays of bytes is an UnpicklingError.

    >>> load_plain(pickle.dumps({"a": [1, 2]}))
    {'a': [1, 2]}
    >>> load_plain(pickle.dumps(print))
    Traceback (most recent call last):
    _pickle.UnpicklingError: the pickle asks for builtins.print, which no file of this dataset needs
    """
    machine = _Machine(len(content))
    try:
        for number, (instruction, argument, _) in enumerate(pickletools.genops(content)):
            if number == MOST:
                raise pickle.UnpicklingError(f"the pickle has more than {MOST:,} instructions, a batch needs far fewer")
            machine.do(instruction.name, argument)
        return _arrays(machine.pop())
    except pickle.UnpicklingError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise pickle.UnpicklingError(f"the pickle data was truncated or is damaged: {error}") from None


class _Array:
    """Stands for numpy.ndarray."""

    def __init__(self) -> None:
        self.values: NDArray[np.uint8] = np.empty(0, dtype=np.uint8)

    def fill(self, state: Any) -> None:
        _, shape, kind, by_columns, content = state
        if not isinstance(kind, _Kind) or not isinstance(content, bytes):
            raise pickle.UnpicklingError("the pickle holds an array that is not of bytes")
        order = "F" if by_columns else "C"
        self.values = np.frombuffer(content, dtype=np.uint8).reshape(shape, order=order)  # type: ignore[call-overload]


class _Kind:
    """Stands for numpy.dtype, of which only bytes are admitted."""

    def fill(self, state: Any) -> None:
        """Ignore the byte order, which bytes do not have."""


def _kind(code: Any, *_: Any) -> _Kind:
    if code not in (b"u1", "u1"):
        raise pickle.UnpicklingError(f"the pickle holds an array of {_said(code)}, only bytes are read")
    return _Kind()


def _begin(*_: Any) -> _Array:
    return _Array()


def _encoded(text: Any, encoding: Any) -> bytes:
    """Decode bytes as Python 3 writes them for Python 2."""
    if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError(f"the pickle encodes by {_said(encoding)}, only latin1 is read")
    return text.encode("latin1")


def _said(value: Any) -> str:
    """Return a value for an error message, without going into containers."""
    return repr(value[:40]) if isinstance(value, str | bytes) else f"a {type(value).__name__}"


_ADMITTED: dict[str, Callable[..., Any]] = {
    "numpy.core.multiarray _reconstruct": _begin,
    "numpy._core.multiarray _reconstruct": _begin,
    "numpy ndarray": _Array,
    "numpy dtype": _kind,
    "_codecs encode": _encoded,
}

_AS_IT_IS = {"BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "BINFLOAT", "FLOAT"}
_AS_IT_IS |= {"BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE"}
_BYTES_OF_PYTHON_2 = {"STRING", "BINSTRING", "SHORT_BINSTRING"}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_PUT, _GET = ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), ("GET", "BINGET", "LONG_BINGET")
_MARK = object()


class _Machine:
    """The stack and the memory that a pickle's instructions work on."""

    def __init__(self, room: int) -> None:
        self._stack: list[Any] = []
        self._memory: dict[int, Any] = {}
        self._room = room  # bytes that may still be encoded, since a pickle can refer to one text many times

    def pop(self) -> Any:
        return self._stack.pop()

    def do(self, name: str, argument: Any) -> None:
        """Execute one instruction."""
        stack = self._stack
        if name in _AS_IT_IS:
            stack.append(argument)
        elif name in _BYTES_OF_PYTHON_2:
            stack.append(argument.encode("latin1"))
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _PUT:
            self._memory[len(self._memory) if argument is None else argument] = stack[-1]
        elif name in _GET:
            stack.append(self._memory[argument])
        elif name in _TUPLES:
            stack.append(tuple(self._last(_TUPLES[name])))
        elif name not in ("PROTO", "FRAME", "STOP"):
            self._build(name, argument)

    def _build(self, name: str, argument: Any) -> None:
        stack = self._stack
        match name:
            case "MARK":
                stack.append(_MARK)
            case "EMPTY_LIST" | "LIST":
                stack.append([] if name == "EMPTY_LIST" else self._marked())
            case "EMPTY_DICT" | "DICT":
                inside = [] if name == "EMPTY_DICT" else self._marked()
                stack.append({})
                self._set(inside)
            case "TUPLE":
                stack.append(tuple(self._marked()))
            case "APPEND" | "APPENDS":
                values = self._last(1) if name == "APPEND" else self._marked()
                self._top(list).extend(values)
            case "SETITEM" | "SETITEMS":
                self._set(self._last(2) if name == "SETITEM" else self._marked())
            case "GLOBAL" | "STACK_GLOBAL":
                stack.append(_admitted(argument or " ".join(self._last(2))))
            case "REDUCE":
                function, arguments = self._last(2)
                stack.append(self._called(function, arguments))
            case "BUILD":
                (state,) = self._last(1)
                self._top((_Array, _Kind)).fill(state)
            case _:
                raise pickle.UnpicklingError(f"the pickle has the instruction {name}, which no file of bytes needs")

    def _last(self, many: int) -> list[Any]:
        """Take values off the stack."""
        if many > len(self._stack):
            raise ValueError("the stack holds fewer values than are taken from it")
        cut = len(self._stack) - many
        taken = self._stack[cut:]
        del self._stack[cut:]
        return taken

    def _marked(self) -> list[Any]:
        """Take the values since the last mark off the stack, and the mark."""
        taken: list[Any] = []
        while (value := self.pop()) is not _MARK:
            taken.append(value)
        return taken[::-1]

    def _top(self, kind: Any) -> Any:
        if not isinstance(self._stack[-1], kind):
            raise ValueError(f"something is put into a value of type {type(self._stack[-1]).__name__}")
        return self._stack[-1]

    def _set(self, pairs: list[Any]) -> None:
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if not isinstance(key, str | bytes | int):
                raise pickle.UnpicklingError(f"the pickle has a {type(key).__name__} as a key, only texts are read")
            self._top(dict)[key] = value

    def _called(self, function: Any, arguments: Any) -> Any:
        if function not in _ADMITTED.values() or not isinstance(arguments, tuple):
            raise ValueError("something is called that is not a function")
        if function is _encoded:
            self._room -= len(arguments[0])
            if self._room < 0:
                raise pickle.UnpicklingError("the pickle encodes more text than it holds")
        return function(*arguments)


def _admitted(name: str) -> Callable[..., Any]:
    if name not in _ADMITTED:
        raise pickle.UnpicklingError(
            f"the pickle asks for {name.replace(' ', '.')}, which no file of this dataset needs"
        )
    return _ADMITTED[name]


def _arrays(value: Any) -> Any:
    """Return the value with arrays in place of their stand-ins."""
    if isinstance(value, dict):
        return {key: one.values if isinstance(one, _Array) else one for key, one in value.items()}
    return value.values if isinstance(value, _Array) else value
