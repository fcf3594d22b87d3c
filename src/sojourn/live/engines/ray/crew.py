"""Crew: the actors, what is sent to them, and what they say.

A call is answered through a queue, so that the loop waits for all actors at once. An actor that dies is not restarted
by Ray: the engine says when, so that nothing that an actor said before can be taken for news of the next one.
"""

import time
from collections.abc import Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol
from weakref import WeakValueDictionary

from torch import Tensor

from sojourn.live.engine import Offer, TaskName
from sojourn.live.engines.ray.actor import Clients
from sojourn.live.engines.ray.errand import Errand, Result, array_of

INLINE = 64 * 2**10  # bytes of a model that travels with its task; larger ones go to the object store, once


class Said(NamedTuple):
    """What an actor said, or what Ray says of it."""

    actor: int
    """Its number."""
    life: int
    """How often it had been started, from 1."""
    name: TaskName | None
    """The task that it is about; None = it has begun."""
    result: Result | None
    """What became of the task; None = it failed, or it is not about a task."""
    wrong: str
    """What went wrong; "" = nothing."""
    died: bool
    """Whether the actor is dead."""
    at: float
    """When it was said, by `time.monotonic`."""


class Crew(Protocol):
    """Actors that are started, called and listened to."""

    def start(self, actor: int) -> int:
        """Start an actor, or another in its place; it will say that it has begun. Return how often that was done."""

    def call(self, actor: int, offer: Offer) -> None:
        """Put a task into an actor's mailbox."""

    def hear(self, timeout: float) -> Said | None:
        """Return what was said next; wait at most `timeout` seconds; None = nothing yet."""

    def stop(self) -> None:
        """End all actors."""


class Stored:
    """A model on its way to actors: it is put into the object store when the first task that carries it is sent."""

    def __init__(self, params: Tensor, stats: Tensor | None) -> None:
        self.tensors = params, stats  # kept, so that their ids stay theirs
        self._model = array_of(params), None if stats is None else array_of(stats)
        self._argument: Any = None

    @property
    def argument(self) -> Any:
        """The model itself if it is small, or a reference to it."""
        if self._argument is None:
            import ray

            small = sum(one.nbytes for one in self._model if one is not None) <= INLINE
            self._argument = self._model if small else ray.put(self._model)
        return self._argument


class RayCrew:
    """Real actors."""

    def __init__(self, errands: Sequence[Errand], options: dict[str, Any]) -> None:
        """`options` are those of every actor: the cores that it needs, and where it is placed."""
        import ray

        self._errands = [ray.put(errand) for errand in errands]  # data may be part of it
        self._class = ray.remote(Clients).options(
            max_restarts=0, max_task_retries=0, enable_task_events=False, **options
        )
        self._actors: list[Any] = [None] * len(errands)
        self._lives = [0] * len(errands)
        self._stored: WeakValueDictionary[tuple[int, int], Stored] = WeakValueDictionary()
        self._last: Stored | None = None
        self._said: SimpleQueue[tuple[int, int, TaskName | None, Any, float]] = SimpleQueue()

    def start(self, actor: int) -> int:
        """Start an actor, or another in its place."""
        self._end(actor)
        self._lives[actor] += 1
        self._actors[actor] = self._class.remote(self._errands[actor])
        self._listen(self._actors[actor].begin.remote(), actor, None)
        return self._lives[actor]

    def call(self, actor: int, offer: Offer) -> None:
        """Put a task into an actor's mailbox."""
        key = id(offer.params), id(offer.stats)
        stored = self._stored.get(key)
        if stored is None:
            stored = self._stored[key] = Stored(offer.params, offer.stats)
        self._last = stored  # the next task may carry the same model
        client, nth, _ = offer.name
        reference = self._actors[actor].work.remote(
            stored.argument, client, nth, offer.step, offer.step_size, offer.steps
        )
        self._listen(reference, actor, offer.name)

    def hear(self, timeout: float) -> Said | None:
        """Return what was said next."""
        try:
            actor, life, name, future, at = self._said.get(timeout=timeout) if timeout > 0 else self._said.get_nowait()
        except Empty:
            return None
        wrong, died = _trouble(future.exception())
        found = None if wrong else future.result()
        if name is None and found is not None:
            return Said(actor, life, None, None, str(found), False, at)
        return Said(actor, life, name, found, wrong, died, at)

    def stop(self) -> None:
        """End all actors."""
        for actor in range(len(self._actors)):
            self._end(actor)

    def _end(self, actor: int) -> None:
        import ray

        if self._actors[actor] is not None:
            ray.kill(self._actors[actor], no_restart=True)
            self._actors[actor] = None

    def _listen(self, reference: Any, actor: int, name: TaskName | None) -> None:
        reference.future().add_done_callback(partial(self._answer, actor, self._lives[actor], name))

    def _answer(self, actor: int, life: int, name: TaskName | None, future: Any) -> None:
        self._said.put((actor, life, name, future, time.monotonic()))


def _trouble(error: BaseException | None) -> tuple[str, bool]:
    """Return what is wrong in a few words, and whether the actor is gone with it."""
    if error is None:
        return "", False
    from ray.exceptions import RayTaskError

    cause = getattr(error, "cause", None) if isinstance(error, RayTaskError) else None
    said = str(cause or error).strip().partition("\n")[0]
    return f"{type(cause or error).__name__}: {said}", not isinstance(error, RayTaskError)
