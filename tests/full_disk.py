"""A disk on which no file can grow beyond a size."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def full_disk(most: int) -> Iterator[None]:
    """No file of more than so many bytes can be written in the block."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
