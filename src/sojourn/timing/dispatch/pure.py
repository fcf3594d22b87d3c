"""pure: the client that has just finished a task gets the next one."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sojourn.compiled import hot
from sojourn.dispatching import DispatcherKind, register

if TYPE_CHECKING:
    from sojourn.timing.simulate.engine import Engine


@hot
def choose_pure(e: "Engine", finisher: int) -> tuple[int, float]:
    """Choose the client that has just finished."""
    return finisher, e.groups[e.clients[finisher].group].share


@register
@dataclass(frozen=True)
class Pure(DispatcherKind):
    """Every client keeps as many tasks as it began with."""

    name = "pure"
    not_live = ""
