"""Wrapped: an algorithm with a wrapper around it, which is again an algorithm."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor, nn

from sojourn.errors import InvalidInput
from sojourn.learning.algorithms.base import Algorithm, Arrival, Info, Sent, Setting
from sojourn.learning.layout import Layout
from sojourn.learning.replay.local import Update
from sojourn.learning.storable import storable
from sojourn.learning.wrappers.base import Wrapper


@storable("wrapped.state")
class State(NamedTuple):
    """The state of the algorithm, and what its wrapper remembers at the server."""

    inner: Any
    memory: Any = None

    @property
    def params(self) -> Tensor:
        """The server's model."""
        params: Tensor = self.inner.params
        return params

    @property
    def version(self) -> int:
        """Number of changes of the server's model."""
        version: int = self.inner.version
        return version


@storable("wrapped.kept")
class Kept(NamedTuple):
    """What a client keeps for the algorithm, and what it keeps for the wrapper."""

    inner: Any = None
    own: Any = None


NOTHING = Kept()


@dataclass(frozen=True)
class Wrapped:
    """An algorithm with a wrapper around it. What is not the wrapper's business is the algorithm's, also what this
    class does not know: calls get the algorithm's own state and its clients' own memory.
    """

    inner: Algorithm
    """The algorithm, which may be wrapped itself."""
    wrapper: Wrapper
    """The wrapper."""

    def __post_init__(self) -> None:
        if self.wrapper.name in [one.name for one in wrappers_of(self.inner)]:
            raise InvalidInput(f"a wrapper must be given once, got {self.wrapper.name} twice; keep one")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("inner", "wrapper"):
            raise AttributeError(name)
        found = getattr(self.inner, name)
        return _inwards(found) if callable(found) else found

    @property
    def remembers(self) -> bool:
        """Whether clients keep something, for the algorithm or for the wrapper."""
        return self.inner.remembers or self.wrapper.remembers

    @property
    def starts_from_memory(self) -> bool:
        """Whether local work begins with what the client keeps; what a wrapper keeps is needed at its end only."""
        return bool(getattr(self.inner, "starts_from_memory", self.inner.remembers))

    def init(self, params: Tensor, setting: Setting) -> State:
        """Begin both."""
        return State(self.inner.init(params, setting), self.wrapper.begin(setting))

    def send(self, state: State, client: int) -> Sent:
        """Send what the algorithm sends."""
        return self.inner.send(state.inner, client)

    def start(self, kept: Kept | None, sent: Sent) -> tuple[Tensor, float]:
        """Start where the algorithm starts."""
        return self.inner.start((kept or NOTHING).inner, sent)

    def finish(self, kept: Kept | None, sent: Sent, start: Tensor, update: Update) -> tuple[Kept | None, Update]:
        """Finish as the algorithm does; then the update passes through the wrapper, unless it is empty."""
        before = kept or NOTHING
        inner, update = self.inner.finish(before.inner, sent, start, update)
        inner = before.inner if inner is None else inner
        own, update = (before.own, update) if update.empty else self.wrapper.leave(before.own, update)
        return (None if inner is None and own is None else Kept(inner, own)), update

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Pass the update through the wrapper, unless it is empty, and apply what comes out of it."""
        through: Arrival | None = arrival
        memory = state.memory
        if not arrival.update.empty:
            memory, through = self.wrapper.arrive(memory, arrival)
        if through is None:
            return State(state.inner, memory), Info(used=False)
        inner, info = self.inner.apply(state.inner, through)
        return State(inner, memory), info

    def missed(self, state: State, client: int) -> State:
        """Take note of an update that has come and is not used."""
        return State(missed(self.inner, state.inner, client), self.wrapper.missed(state.memory, client))

    def tick(self, state: State) -> State:
        """End the algorithm's round or period."""
        return state._replace(inner=self.inner.tick(state.inner))

    def for_model(self, layout: Layout) -> "Wrapped":
        """Return both for this model."""
        return Wrapped(fitted(self.inner, layout), self.wrapper.for_model(layout))

    def columns(self, setting: Setting) -> tuple[str, ...]:
        """The columns of both."""
        return columns_of(self.inner, setting) + self.wrapper.columns(setting)

    def measures(self, state: State, setting: Setting) -> tuple[float, ...]:
        """The values of both."""
        return measures_of(self.inner, state.inner, setting) + self.wrapper.measures(state.memory, setting)


def _inwards(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a call of the algorithm which this module does not know, with the algorithm's own state and memory."""

    def called(*given: Any, **named: Any) -> Any:
        return call(*(one.inner if isinstance(one, State | Kept) else one for one in given), **named)

    return called


def missed(algorithm: Algorithm, state: Any, client: int) -> Any:
    """Return the state of an algorithm to which an update has come that is not used; only wrappers take note of it."""
    return algorithm.missed(state, client) if isinstance(algorithm, Wrapped) else state


def wrapped(algorithm: Algorithm, wrappers: Sequence[Wrapper]) -> Algorithm:
    """Return the algorithm with wrappers around it; the first one is the innermost, nearest to the client's work."""
    for one in wrappers:
        algorithm = Wrapped(algorithm, one)
    return algorithm


def module_of(module: nn.Module, wrappers: Sequence[Wrapper], seed: int) -> nn.Module:
    """Return the module that is trained; raise an error if the wrappers freeze all of it."""
    left = "the model"
    for one in wrappers:
        before = _trained(module)
        module = one.of_module(module, seed)
        if before and not _trained(module):
            raise InvalidInput(
                f"wrap: {one.name} must leave a parameter to train, but freezes all that {left} leaves to it: "
                f"{', '.join(before)}; leave one of them out"
            )
        left = one.name if _trained(module) != before else left
    return module


def _trained(module: nn.Module) -> list[str]:
    return [name for name, one in module.named_parameters() if one.requires_grad]


def wrappers_of(algorithm: Any) -> list[Wrapper]:
    """Return the wrappers around an algorithm, the innermost first."""
    return [*wrappers_of(algorithm.inner), algorithm.wrapper] if isinstance(algorithm, Wrapped) else []


def bare(algorithm: Algorithm) -> Algorithm:
    """Return the algorithm without its wrappers."""
    return bare(algorithm.inner) if isinstance(algorithm, Wrapped) else algorithm


def fitted(algorithm: Algorithm, layout: Layout) -> Algorithm:
    """Return an algorithm for a model; one that does not ask for its layout is the same for all."""
    own = getattr(algorithm, "for_model", None)
    found: Algorithm = algorithm if own is None else own(layout)
    return found


def columns_of(algorithm: Any, setting: Setting) -> tuple[str, ...]:
    """Return the names of an algorithm's own columns in metrics.csv; most have none."""
    own = getattr(algorithm, "columns", None)
    return () if own is None else tuple(own(setting))


def measures_of(algorithm: Any, state: Any, setting: Setting) -> tuple[float, ...]:
    """Return their values."""
    own = getattr(algorithm, "measures", None)
    return () if own is None else tuple(own(state, setting))
