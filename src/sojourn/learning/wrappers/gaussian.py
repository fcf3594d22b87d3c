"""Gaussian noise: each update is cut to a norm and gets noise, so that what it tells about its client is bounded.

    u <- u min(1, S / |u|) + N(0, (z S)^2)

S is `clip` and z is `noise`. Epsilon at `delta` is computed for each client over its own updates, all that the server
received from it, without amplification by sampling or shuffling; the column `epsilon` has the largest over clients. It
is about all examples of a client together: with `neighbours=replace` the client could have any other data (its clipped
update moves by 2 S at most), with `neighbours=zero` its update could be missing, a zero in its place (S).

Who is trusted is `at`:

client   the client adds the noise. The adversary sees all that clients send, as the server and the other clients do
         together, and knows the timing, but not the client's random numbers. Nobody but the client is trusted.
server   the server clips and adds the noise to each update as it arrives. The adversary sees all models that the server
         sends, and may be all other clients; it does not see updates. The server is trusted.

Statistics (BatchNorm) and losses of clients would tell about them too: a model with statistics is refused, and with
noise at the client no training loss is sent, so that `train_loss` is empty. The timing must not depend on the data.
With a `budget`, updates of a client whose epsilon would exceed it are withheld, and refused by the server; where a
dispatcher gathers updates or cancels tasks by their number, there can be no budget. In a simulation noise is drawn from
the seed of the run, so that the run can be repeated: whoever knows the seed can take it away. A live run draws from the
machine. Noise is made of floating-point numbers, whose last bits exact attacks can use.

Special case: with noise = 0 and clip = inf the run is the same to the bit.

Dwork and Roth, 2014, Appendix A; McMahan, Ramage, Talwar, Zhang, "Learning differentially private recurrent language
models", ICLR 2018; Balle and Wang, ICML 2018.
"""

from dataclasses import dataclass
from math import ceil, inf, isfinite, isinf, nan
from typing import NamedTuple

import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.learning.algorithms.base import Arrival, Setting
from sojourn.learning.replay.local import Update
from sojourn.learning.storable import storable
from sojourn.learning.wrappers.base import Wrapper, random_of
from sojourn.learning.wrappers.epsilon import check_library, epsilon_of, least_noise, most_updates
from sojourn.scenario import Dispatcher

PLACES = ("client", "server")
NEIGHBOURS = {"replace": 2.0, "zero": 1.0}  # how far a clipped update can move, in units of the clip
MOST_GROUPS = 20  # up to this many groups get a column each
MARGIN = 1 - 1e-6  # so that rounding never lets a norm exceed the clip


@storable("gaussian.spent")
class Spent(NamedTuple):
    """What a client keeps."""

    updates: int
    """Updates that it has sent."""


@storable("gaussian.counts")
class Counts(NamedTuple):
    """What the server counts."""

    sent: dict[int, int]
    """Updates of each client that were seen."""
    clipped: Tensor | None = None
    """Number of these that were clipped, among those of which this is known; None = of none so far."""
    refused: int = 0
    """Updates refused because their clients had spent their budgets."""
    unknown: int = 0
    """Number of the seen updates of which it is not known whether they were clipped."""

    def counted(self, client: int, clipped: Tensor | None) -> "Counts":
        """Return the counts with one more update of a client, and whether it was clipped; None = not known."""
        sent = {**self.sent, client: self.sent.get(client, 0) + 1}
        if clipped is None:
            return self._replace(sent=sent, unknown=self.unknown + 1)
        return self._replace(sent=sent, clipped=clipped if self.clipped is None else self.clipped + clipped)

    @property
    def clipped_share(self) -> float:
        """Share of clipped updates among those of which it is known; NaN where it is known of none."""
        seen = sum(self.sent.values())
        if self.clipped is None:
            return nan if seen else 0.0
        return float(self.clipped) / (seen - self.unknown)


@dataclass(frozen=True)
class Gaussian(Wrapper):
    """Each update is cut to a norm and gets Gaussian noise; epsilon is computed for each client."""

    clip: float = 1.0
    """Largest norm of an update (S); inf = any, without noise only."""
    noise: float = 1.0
    """Standard deviation of the noise, divided by the clip (z); 0 = no noise."""
    at: str = "client"
    """Who adds the noise: client or server."""
    delta: float = 1e-5
    """Delta at which epsilon is computed; 0 = no epsilon is computed."""
    budget: float | None = None
    """Largest epsilon of a client; None = any."""
    neighbours: str = "replace"
    """What a client's updates are compared with: replace (any other data) or zero (no update)."""

    name = "gaussian"

    def __post_init__(self) -> None:
        if not self.clip > 0 or (isinf(self.clip) and self.noise != 0):
            raise InvalidInput(f"gaussian: clip must be positive, and finite where there is noise, got {self.clip}")
        if not (isfinite(self.noise) and self.noise >= 0):
            raise InvalidInput(f"gaussian: noise must be non-negative and finite, got {self.noise}")
        if self.at not in PLACES:
            raise InvalidInput(f"gaussian: at must be client or server, got '{self.at}'")
        if not 0 <= self.delta < 1:
            raise InvalidInput(f"gaussian: delta must lie in [0, 1), got {self.delta}")
        if self.neighbours not in NEIGHBOURS:
            raise InvalidInput(f"gaussian: neighbours must be replace or zero, got '{self.neighbours}'")
        if self.budget is not None and not (self.budget > 0 and self.delta > 0 and self.noise > 0):
            raise InvalidInput(f"gaussian: a budget must be positive and needs noise and delta, got {self.budget}")
        if self.delta > 0:
            check_library()
        if self.most == 0:
            one, enough = epsilon_of(self.multiplier, 1, self.delta), least_noise(self.delta, self.budget or 0)
            raise InvalidInput(
                f"gaussian: a budget must allow one update of a client, whose epsilon is {one:.3g} here, got "
                f"{self.budget}; raise it, or raise noise to {ceil(100 * enough * NEIGHBOURS[self.neighbours]) / 100}"
            )

    @property
    def remembers(self) -> bool:  # type: ignore[override]
        """Whether clients count their own updates, for the budget."""
        return self.budget is not None and self.at == "client"

    @property
    def secret(self) -> bool:  # type: ignore[override]
        """Whether there is noise, which nobody may know."""
        return self.noise > 0

    @property
    def multiplier(self) -> float:
        """Standard deviation of the noise, divided by how far an update can move."""
        return self.noise / NEIGHBOURS[self.neighbours]

    @property
    def most(self) -> float:
        """Updates of a client within its budget."""
        return inf if self.budget is None else most_updates(self.multiplier, self.delta, self.budget)

    def leave(self, kept: Spent | None, update: Update) -> tuple[Spent | None, Update]:
        """With noise at the client: clip, add noise, and hide the loss; send nothing once the budget is spent."""
        if self.at == "server":
            return kept, update
        spent = 0 if kept is None else kept.updates
        if spent >= self.most:
            nothing = update.with_vector(torch.zeros_like(update.vector), bits=0)
            return kept, nothing._replace(loss=None)
        private = self.private(update)
        if self.noise > 0:
            private = private._replace(loss=None)
        return (Spent(spent + 1) if self.remembers else None), private

    def begin(self, setting: Setting) -> Counts:
        """Begin with nothing counted."""
        return Counts({})

    def arrive(self, memory: Counts, arrival: Arrival) -> tuple[Counts, Arrival | None]:
        """Count; refuse an update beyond the budget; with noise at the server, clip and add noise."""
        client, seen = arrival.client, memory.sent.get(arrival.client, 0)
        if seen >= self.most:
            return memory._replace(refused=memory.refused + 1), None
        update = self.private(arrival.update) if self.at == "server" else arrival.update
        return memory.counted(client, update.clipped), arrival._replace(update=update)

    def missed(self, memory: Counts, client: int) -> Counts:
        """Count an update that the adversary has seen, though it was not used."""
        if self.at == "server":  # it has changed no model
            return memory
        return memory.counted(client, None)

    def private(self, update: Update) -> Update:
        """Return the update, clipped and with noise."""
        if update.stats is not None and self.noise > 0:
            raise InvalidInput("gaussian: the model has statistics (BatchNorm), which tell about data; use norm=group")
        vector = update.vector
        norm = torch.linalg.vector_norm(vector, dtype=torch.float64)
        far = norm > self.clip
        scale = torch.where(far, MARGIN * self.clip / norm.clamp(min=1e-300), torch.ones_like(norm))
        private = vector * scale.to(vector.dtype)
        if self.noise > 0:
            random = random_of(self, update)
            drawn = torch.randn(vector.shape, generator=random, dtype=vector.dtype, device=vector.device)
            private = torch.add(private, drawn, alpha=self.noise * self.clip)
        return update.with_vector(private, update.bits if self.noise == 0 else None)._replace(clipped=far.double())

    def check_timing(self, method: str, dispatcher: Dispatcher) -> None:
        """A dispatcher that counts updates would go on where the method has not, because some were refused. Updates
        that are replaced before they are used are not computed in a simulation, so clients would not count them.
        """
        if self.budget is not None and dispatcher.kind.counts_updates:
            raise InvalidInput(
                f"gaussian: a budget must not be given where a dispatcher gathers updates or cancels tasks by their "
                f"number, because updates beyond it are refused; got budget {self.budget:g} with {method}, whose "
                f"dispatcher is {dispatcher.kind.name}; leave budget out and read epsilon in the run, or use another "
                "method"
            )
        if self.remembers and dispatcher.kind.supersedes:
            raise InvalidInput(
                f"gaussian: a budget must not be given with at=client where updates may be replaced before they are "
                f"used, because clients spend on those too; got budget {self.budget:g} with {method}, whose dispatcher "
                f"is {dispatcher.kind.name}; leave budget out and read epsilon in the run, or write at=server"
            )

    def check_live(self) -> None:
        """A client that is started again does not know what it has spent."""
        if self.remembers:
            raise InvalidInput(
                "gaussian: a live client forgets its budget when it is started again; leave budget out, or write "
                "at=server"
            )

    def columns(self, setting: Setting) -> tuple[str, ...]:
        """Share of clipped updates, refused updates, and epsilon: the largest, and the largest of each group."""
        groups = setting.fleet.name if setting.fleet.groups <= MOST_GROUPS else ()
        epsilon = ("epsilon", *(f"epsilon_{name}" for name in groups)) if self.delta > 0 else ()
        return ("clipped", "refused", *epsilon)

    def measures(self, memory: Counts, setting: Setting) -> tuple[float, ...]:
        """Their values."""
        clipped = memory.clipped_share
        if self.delta == 0:
            return clipped, memory.refused
        fleet, most = setting.fleet, [0] * setting.fleet.groups
        for client, many in memory.sent.items():
            group = int(fleet.group_of_client[client])
            most[group] = max(most[group], many)
        each = [epsilon_of(self.multiplier, many, self.delta) for many in most]
        return clipped, memory.refused, max(each), *(each if fleet.groups <= MOST_GROUPS else ())
