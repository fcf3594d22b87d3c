"""What travels: messages with one large field, arrays as raw bytes, and the methods of the service.

Protocol buffers would copy a model of some megabytes two times more than necessary in each direction. So the large
field, `data`, is put in front of the encoded message and cut out of it by hand; the result is an ordinary message. In
front it begins after four bytes if it has 16 kB to 2 MB, so that float32 numbers can be used where they lie.
"""

import sys
import warnings
from math import inf, isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.learning.replay.local import Local
from sojourn.live.engine import TaskName, Work
from sojourn.live.engines.grpc import federation_pb2 as pb

PROTOCOL = 2  # raised with every change that the other side would misunderstand; see federation.proto
WHOLE = 2 * 2**20  # bytes of an array that travels in one message at most
CHUNK = 2**20  # bytes of a chunk of a longer array
WINDOW = 4  # chunks on their way at a time
HEAD = 2**20  # bytes of a message at most, apart from its array
DATA = 15  # number of the field `data`, in every message that has one
ENDED = "the run has ended"
SERVICE = "sojourn.live.v1.Federation"
MOST_FIELDS = 64  # of a message with an array, from a client
METHODS = ("Join", "Pull", "Fetch", "Push", "Leave")  # and Watch, which is a stream
DTYPES = {torch.float32: pb.DTYPE_FLOAT32, torch.float64: pb.DTYPE_FLOAT64}
KEEP_ALIVE = [
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
]


class Malformed(Exception):
    """The bytes are no message of this protocol."""


def joined(message: Any, parts: list[memoryview]) -> bytes:
    r"""Return the encoded message with the bytes of `parts` as its field `data`.

    >>> joined(pb.PullReply(serial=3), [memoryview(b"ab"), memoryview(b"c")])
    b'z\x03abc\x10\x03'
    """
    if not parts:
        return bytes(message.SerializeToString())
    size = sum(part.nbytes for part in parts)
    return b"".join((_varint(DATA << 3 | 2), _varint(size), *parts, message.SerializeToString()))


def split(kind: Any, content: bytes, most: float = inf) -> tuple[Any, memoryview]:
    r"""Return the message without its field `data`, and that field; a message with more fields than `most` is refused,
    for here each takes as long as a thousand bytes elsewhere.

    >>> message, data = split(pb.PullReply, b"z\x03abc\x10\x03")
    >>> message.serial, bytes(data)
    (3, b'abc')
    """
    view, data, place = memoryview(content), memoryview(b""), 0
    rest = []
    while place < len(content):
        start, most = place, most - 1
        if most < 0:
            raise Malformed
        tag, place = _read_varint(content, place)
        match tag & 7:
            case 0:
                _, place = _read_varint(content, place)
            case 1:
                place += 8
            case 2:
                size, place = _read_varint(content, place)
                place += size
            case 5:
                place += 4
            case _:
                raise Malformed
        if place > len(content):
            raise Malformed
        if tag == DATA << 3 | 2:
            data = view[place - size : place]
        else:
            rest.append(view[start:place])
    return parsed(kind, b"".join(rest)), data


def parsed(kind: Any, content: bytes) -> Any:
    """Return the message that these bytes are."""
    try:
        return kind.FromString(content)
    except Exception:  # DecodeError, by the package's several implementations
        raise Malformed from None


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _read_varint(content: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while place < len(content) and shift < 64:
        byte = content[place]
        number |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return number, place
    raise Malformed


class Payload:
    """The bytes of one or two tensors, one after the other, without a copy where they lie in main memory."""

    def __init__(self, *tensors: Tensor | None) -> None:
        self.tensors = tensors
        """The tensors; they must not change while the payload is in use."""
        self.parts = [_bytes_of(tensor.detach().cpu().contiguous()) for tensor in tensors if tensor is not None]
        """Their bytes."""
        self.size = sum(part.nbytes for part in self.parts)
        """Number of bytes that travel."""
        self.unpacked = self.size
        """Number of bytes of the tensors; more than `size` if they travel packed."""

    def as_packed(self, content: bytes) -> "Payload":
        """Return the same payload in fewer bytes."""
        made = Payload()
        made.parts, made.size, made.unpacked = [memoryview(content)], len(content), self.unpacked
        return made

    def cut(self, offset: int, size: int) -> list[memoryview]:
        """Return the bytes from `offset` on, at most `size` of them."""
        pieces = []
        for part in self.parts:
            begin, end = max(offset, 0), min(offset + size, part.nbytes)
            if begin < end:
                pieces.append(part[begin:end])
            offset -= part.nbytes
        return pieces


def _bytes_of(tensor: Tensor) -> memoryview:
    return tensor.numpy().data.cast("B") if tensor.numel() else memoryview(b"")


with warnings.catch_warnings():  # PyTorch warns once that writing to such a tensor would change the bytes
    warnings.simplefilter("ignore")
    torch.from_numpy(np.frombuffer(b"once", np.float32))


def in_place(data: memoryview, dtype: torch.dtype) -> Tensor | None:
    """Return the numbers that these bytes are, without a copy, if they lie so that they can be used; the bytes must be
    nobody else's.
    """
    if not data.nbytes or data.nbytes % dtype.itemsize:
        return None
    numbers = np.frombuffer(data, {torch.float64: np.float64, torch.float32: np.float32, torch.uint8: np.uint8}[dtype])
    return torch.from_numpy(numbers) if numbers.flags.aligned else None


class Assembly:
    """A tensor that is being received: each chunk is copied to its place."""

    def __init__(self, size: int, dtype: torch.dtype, whole: int, chunk: int) -> None:
        self.tensor = torch.empty(size // dtype.itemsize, dtype=dtype)
        """The numbers; complete when `missing` is empty."""
        self.missing = {0} if size <= whole else set(range(0, size, chunk))
        """Where the chunks begin that have not come yet."""
        self._size, self._chunk = size, size if size <= whole else chunk
        self._bytes = _bytes_of(self.tensor)

    def length_at(self, offset: int) -> int:
        """Return how many bytes the chunk has that begins at `offset`; -1 = none begins there."""
        return min(self._chunk, self._size - offset) if 0 <= offset < self._size and offset % self._chunk == 0 else -1

    def put(self, offset: int, data: memoryview) -> bool:
        """Store a chunk, and return whether it has the right place and size."""
        if data.nbytes != self.length_at(offset):
            return False
        self._bytes[offset : offset + data.nbytes] = data
        self.missing.discard(offset)
        return True


def finite(tensor: Tensor) -> bool:
    """Whether all numbers are finite; their sum is, in nearly all cases, enough to know."""
    return isfinite(tensor.sum().item()) or bool(torch.isfinite(tensor).all())


def dtype_number(dtype: torch.dtype) -> int:
    """Return the number by which a type of numbers travels."""
    if dtype not in DTYPES:
        raise InvalidInput(f"the numbers of a live model must be float32 or float64, got {dtype}; convert the model")
    if sys.byteorder != "little":
        raise InvalidInput("a live federation needs machines with little-endian numbers, this one is big-endian")
    return int(DTYPES[dtype])


def dtype_of(number: int) -> torch.dtype:
    """Return the type of numbers that travels by this number."""
    return {value: key for key, value in DTYPES.items()}[number]


def to_name(name: TaskName) -> Any:
    """Return the message for the name of a task."""
    return pb.TaskName(client=name.client, nth=name.nth, epoch=name.epoch)


def from_name(message: Any) -> TaskName:
    """Return the name of a task from its message."""
    return TaskName(message.client, message.nth, message.epoch)


def to_work(work: Work) -> Any:
    """Return the message for the work of every client."""
    if not 0 <= work.seed < 2**64:
        raise InvalidInput(f"the seed of a live run must be at least 0 and below 2^64, got {work.seed}")
    numbers = {key: getattr(work.local, key) for key in pb.Local.DESCRIPTOR.fields_by_name}
    return pb.Work(**(work._asdict() | {"local": pb.Local(**numbers)}))


def from_work(message: Any) -> Work:
    """Return the work of every client from its message; the schedule of the step size is the server's."""
    local = message.local
    numbers = {key: getattr(local, key) for key in pb.Local.DESCRIPTOR.fields_by_name}
    for key in ("epochs", "clip"):
        if not local.HasField(key):
            numbers[key] = None
    rest = (message.seed, message.order, message.prefetch, message.algorithm)
    return Work(message.parameters, message.statistics, Local(**numbers), *rest)
