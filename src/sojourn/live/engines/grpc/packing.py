"""Packing: updates that a wrapper has compressed take less on the way, without a loss.

A compressed update is still an array of the model's size, most of whose numbers are zero, or one of a few. Its bytes
are sorted into planes (the first bytes of all numbers, then the second bytes, ...), in which they repeat, and deflated:
runs of a byte are counted, and frequent bytes get short codes.
The server gets the very same numbers, whatever the wrapper was, so that a replay ends with the same model.
"""

import zlib

import numpy as np
import torch
from torch import Tensor

from sojourn.live.engines.grpc.wire import Payload


def packed(content: Payload, itemsize: int) -> Payload:
    """Return a payload that is packed, or the same one if that would not be shorter."""
    numbers = np.frombuffer(b"".join(content.parts), np.uint8).reshape(-1, itemsize)
    stream = zlib.compressobj(strategy=zlib.Z_RLE)
    found = stream.compress(numbers.T.tobytes()) + stream.flush()
    return content.as_packed(found) if len(found) < content.size else content


def unpacked(data: memoryview, size: int, dtype: torch.dtype) -> Tensor | None:
    """Return the numbers of a packed update of `size` bytes; None = the bytes are nothing of that kind.

    At most `size` bytes are unpacked, whatever the data claims to be.
    """
    stream = zlib.decompressobj()
    try:
        planes = stream.decompress(data, size)
        if not stream.eof:  # the end of a stream, its checksum, may still be there to be read
            planes += stream.decompress(stream.unconsumed_tail, 1)
    except zlib.error:
        return None
    if len(planes) != size or not stream.eof or stream.unused_data:
        return None
    numbers = np.frombuffer(planes, np.uint8).reshape(dtype.itemsize, -1).T
    return torch.frombuffer(bytearray(numbers.tobytes()), dtype=dtype)
