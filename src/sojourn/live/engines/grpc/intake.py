"""Intake: the form of an update is checked before it reaches the loop."""

import time
from math import isfinite
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sojourn.learning.replay.local import Update
from sojourn.live.engine import Arrived, TaskName, Work
from sojourn.live.engines.grpc import federation_pb2 as pb
from sojourn.live.engines.grpc.member import Member, Parcel
from sojourn.live.engines.grpc.packing import unpacked
from sojourn.live.engines.grpc.wire import CHUNK, HEAD, WHOLE, Assembly, finite, in_place

NOT_FINITE = "an update must have finite numbers only"
PACKINGS = (pb.PACKING_NONE, pb.PACKING_PLANES)
MOST_STEPS = 2**31  # local steps of an update
MOST_SECONDS = 366 * 86_400.0  # that a client may say it worked on a task or held it: a year


class Limits(NamedTuple):
    """What a server bears."""

    message: int = WHOLE + 2 * HEAD
    """Bytes of a message at most."""
    partial: int = 4
    """Updates of one client that may be there in parts."""
    waiting: int = 256
    """Events that may wait for the loop; further pushes are answered later."""
    pushes: int = 8
    """Pushes of one client that may wait so; a client sends four parts of an update at a time."""


class Intake:
    """Puts updates together and checks them."""

    def __init__(self, work: Work, dtype: torch.dtype, partial: int) -> None:
        self._work, self._dtype, self._partial = work, dtype, partial
        self._size = (work.parameters + work.statistics) * dtype.itemsize
        self._largest = torch.finfo(dtype).max

    def take(self, member: Member, name: TaskName, request: Any, data: memoryview) -> tuple[Tensor | None, str]:
        """Take a part of an update; return its numbers as soon as they are complete, and the rule that it breaks."""
        if name not in member.handed:
            return None, "the client does not have this task"
        wrong = self._broken_rule(request, member.handed[name])
        if not wrong and name not in member.partial and len(member.partial) >= self._partial:
            wrong = f"at most {self._partial} updates may be on their way in parts"
        if wrong:
            return None, wrong
        size, dtype = (request.packed, torch.uint8) if request.packing else (self._size, self._dtype)
        numbers = in_place(data, dtype) if data.nbytes == size <= WHOLE and not request.offset else None
        if numbers is None:
            assembly = member.partial.pop(name, None) or Assembly(size, dtype, WHOLE, CHUNK)
            if (assembly.tensor.nbytes, assembly.tensor.dtype) != (size, dtype):
                return None, "the parts of an update must agree about its size and packing"
            if not assembly.put(request.offset, data):
                return None, f"{data.nbytes} bytes at {request.offset} are no part of an update of {size} bytes"
            if assembly.missing:
                member.partial[name] = assembly
                return None, ""
            numbers = assembly.tensor
        if request.packing:
            numbers = unpacked(numbers.numpy().data, self._size, self._dtype)
        if numbers is None:
            return None, f"its bytes are no packed update of {self._size} bytes"
        return numbers, "" if finite(numbers) else NOT_FINITE

    def _broken_rule(self, request: Any, parcel: Parcel | None) -> str:
        """Return which rule the facts of an update break; "" = none."""
        seconds, size = (request.service, request.held), request.step_size
        rules = [
            (request.kind in (pb.KIND_GRADIENT, pb.KIND_DELTA), f"the kind {request.kind} of an update is not known"),
            (request.size == self._size, f"an update must have {self._size} bytes, got {request.size}"),
            (request.packing in PACKINGS, f"the packing {request.packing} of an update is not known"),
            (
                0 < request.packed < self._size if request.packing else not request.packed,
                f"a packed update must have fewer than {self._size} bytes, got {request.packed}",
            ),
            (request.steps < MOST_STEPS, f"the steps of an update must be below {MOST_STEPS}, got {request.steps}"),
            (_right_step_size(request, parcel), f"an update must have the step size of its task, got {size}"),
            (abs(request.loss) <= self._largest, f"the loss must be at most {self._largest:.2g}, got {request.loss}"),
            (
                all(0 <= one <= MOST_SECONDS for one in seconds),
                f"seconds must lie between 0 and {MOST_SECONDS:.0f}, got {seconds}",
            ),
        ]
        return next((reason for kept, reason in rules if not kept), "")

    def arrived(self, name: TaskName, request: Any, numbers: Tensor) -> Arrived:
        """Return the event for a complete update."""
        vector, stats = numbers, None
        if self._work.statistics:
            vector, stats = numbers[: self._work.parameters], numbers[self._work.parameters :].clone()
        plain = request.kind == pb.KIND_GRADIENT
        update = Update(
            vector if plain else None,
            None if plain else vector,
            request.step_size,
            request.steps,
            torch.full((), request.loss, dtype=self._dtype),
            stats,
            remembered=request.remembered if request.HasField("remembered") else None,
        )
        size = request.packed or self._size
        return Arrived(name, update, request.service, request.held, time.monotonic(), size)


def _right_step_size(request: Any, parcel: Parcel | None) -> bool:
    """Whether the step size is that of the task; of a task of an earlier server only the sign is known."""
    if parcel is not None:
        return bool(request.step_size == parcel.offer.step_size)
    plain = request.kind == pb.KIND_GRADIENT  # a difference of models is divided by the step size
    return isfinite(request.step_size) and (request.step_size > 0 or (plain and request.step_size == 0))
