"""The algorithm that a plan was tuned for: runs that name none use it, and a note says where another one is used.

A step size that is good for one algorithm can be far too large for another.
"""

from collections.abc import Mapping
from typing import Any

from sojourn.errors import InvalidInput, SojournError
from sojourn.own_code import mentions_code, object_or, objects_of
from sojourn.plan import Plan


def tuned_algorithm(plan: Any) -> str | None:
    """The algorithm that the plan of this text was tuned for; None = the plan does not say.

    A plan file must not decide which code is run, so an algorithm of the user's own has to be named.

    >>> from sojourn.fleet import Fleet
    >>> from sojourn.own_code import handed_over
    >>> plan = Plan(("all",), [2], [0.5], 1, 1.6, tuned_for="fedbuff(size=3)")
    >>> tuned_algorithm(handed_over(plan, "tuned"))
    'fedbuff(size=3)'
    """
    if not isinstance(plan, str):
        return None
    try:
        found: Plan = object_or(plan, Plan.load)
    except SojournError:
        return None  # whoever uses the plan reports what is wrong with it
    text = found.tuned_for
    if text is not None and mentions_code(text) and not objects_of([text]):
        raise InvalidInput(
            f"the plan was tuned for algorithm {text}, code of your own, and the run names none; name it"
        )
    return text


def with_tuned_algorithm(content: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a run; one that names a tuned plan and no algorithm gets the plan's."""
    found = tuned_algorithm(content.get("plan")) if "algorithm" not in content else None
    return dict(content) if found is None else {**content, "algorithm": found}


def tuned_for_another(plan: Plan, algorithm: str, step_size: float | None) -> str | None:
    """A sentence if a run takes its step size from a plan that was tuned for another algorithm; otherwise None."""
    mine, other = ("".join((text or "").split()) for text in (algorithm, plan.tuned_for))
    if not other or mine == other or step_size is not None or plan.step_size is None:
        return None
    return (
        f"the plan's step size {plan.step_size:g} was tuned for {plan.tuned_for}, not for {algorithm}; "
        "tune it anew, or give a step size"
    )
