"""A plan's promises beside what is computed or simulated now."""

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sojourn.plan import Plan
    from sojourn.timing.exact.analysis import Analysis
    from sojourn.timing.simulate.summary import Summary

KEPT = 4.0  # standard errors within which a promise is held to be kept
PLAIN = ("bound", "steps", "time", "energy", "largest_step_size", "free_step_size")


def server_rate(plan: "Plan", given: float | None) -> float | None:
    """The server rate of the command line, or the one that the plan was made for."""
    promised = plan.promises.get("server_rate")
    return given if given is not None or promised is None else float(promised)


def promised(plan: "Plan") -> list[str]:
    """What the plan promises, as sentences; nothing where it was made by hand."""
    if not plan.promises:
        return []
    facts = {key: plan.promises.get(key) for key in PLAIN}
    listed = ", ".join(f"{key.replace('_', ' ')} {value:.6g}" for key, value in facts.items() if value is not None)
    step = "" if plan.step_size is None else f"step size {plan.step_size:.6g}, "
    return [f"the plan minimised {plan.objective}: {step}{listed}"]


def against_theory(plan: "Plan", analysis: "Analysis") -> list[str]:
    """Whether throughput and staleness are still what was promised."""
    if plan.promises.get("throughput") is None:
        return []
    pairs = [(float(plan.promises["throughput"]), analysis.throughput)]
    stale = plan.promises.get("staleness", [])
    pairs += list(zip(stale, analysis.staleness().tolist(), strict=False))
    off = max(abs(now - then) / max(abs(then), 1e-12) for then, now in pairs)
    if off < 1e-6:
        return ["throughput and staleness are those that the plan promises"]
    return [
        f"throughput or staleness differs by up to {100 * off:.3g}% from what the plan promises; was it made for other "
        "links, another server or another concurrency?"
    ]


def against_simulation(plan: "Plan", summary: "Summary") -> list[dict[str, Any]]:
    """Promised and simulated throughput and staleness, with their distance in standard errors."""
    if plan.promises.get("throughput") is None:
        return []
    flow, stale = summary.throughput, summary.staleness
    rows = [("throughput", float(plan.promises["throughput"]), float(flow.value), float(flow.error))]
    for g, value in enumerate(plan.promises.get("staleness", [])[: summary.fleet.groups]):
        name = f"staleness of {summary.fleet.name[g]}"
        rows.append((name, float(value), float(stale.value[g]), float(stale.error[g])))
    return [
        {"promise": name, "promised": then, "simulated": now, "standard_error": error, "z": _z(then, now, error)}
        for name, then, now, error in rows
    ]


def _z(then: float, now: float, error: float) -> float:
    """How far off in standard errors; NaN where the error is not known."""
    if error == 0:
        return 0.0 if now == then else math.copysign(math.inf, now - then)
    return (now - then) / error


def print_check(rows: list[dict[str, Any]]) -> None:
    """A table of the promises, and whether they were kept."""
    from sojourn.cli.show import number, table, with_error

    broken = [row["promise"] for row in rows if abs(row["z"]) > KEPT]
    unknown = [row["promise"] for row in rows if math.isnan(row["z"])]
    verdicts = [f"not kept within {KEPT:g} standard errors: {_some(broken)}"] if broken else []
    if unknown:
        verdicts.append(f"too few updates to tell: {_some(unknown)}; use more --steps")
    if not verdicts:
        verdicts.append(f"every promise is kept within {KEPT:g} standard errors")
    table(
        "the plan's promises",
        ["promise", "promised", "simulated", "standard errors off"],
        [
            [
                row["promise"],
                number(row["promised"]),
                with_error(row["simulated"], row["standard_error"]),
                number(row["z"], 3),
            ]
            for row in rows
        ],
        verdicts,
    )


def _some(names: list[str]) -> str:
    return ", ".join(names[:6]) + (" ..." if len(names) > 6 else "")
