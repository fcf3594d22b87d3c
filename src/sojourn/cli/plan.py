"""`sojourn plan`: choose whom to sample, how many tasks to keep in flight, and how to weight updates."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sojourn.cli.arguments import AsJson, Cap, Figure, FleetFile, Overwrite, Pictures, pictures_in, singly

BOUND = "Only for --by bound"
LIMITS = "Limits"
OF_THE_BOUND = (
    *("budget_steps", "epsilon", "search", "reading", "free_step", "weights", "floor", "unequal"),
    *("server_rate", "server_power"),
)
"""Flags that only the planner by bound has; giving one of them selects it."""
ONLY_OF_THE_BOUND = (*OF_THE_BOUND, "sensitivity", "law_check")
OF_THE_POLICY = ("twin", "skewed", "loss", "most_bytes", "model_bytes")
"""Flags that only the planner by policy has."""


def plan(
    fleet: FleetFile,
    time: Annotated[
        str | None,
        typer.Option(
            "--time",
            "--budget-time",
            help="Time for the training: `90s`, `1h`, `2 days`, or a number in seconds (or in whatever unit of time "
            "the fleet's rates have).",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="`policy` (default): what training does in that time. `bound`: the paper's planner, which minimises "
            "a convergence bound; its own flags, listed below, imply it."
        ),
    ] = None,
    most_tasks: Annotated[str | None, typer.Option(help="Most tasks in flight.", rich_help_panel=LIMITS)] = None,
    most_staleness: Annotated[
        float | None, typer.Option(help="Largest mean staleness that any client may have.", rich_help_panel=LIMITS)
    ] = None,
    most_bytes: Annotated[
        float | None,
        typer.Option(
            help="Most bytes that a client may send and receive in the time; needs --model-bytes.",
            rich_help_panel=LIMITS,
        ),
    ] = None,
    model_bytes: Annotated[
        float | None, typer.Option(help="Size of the model in bytes, one way.", rich_help_panel=LIMITS)
    ] = None,
    budget_steps: Annotated[
        str | None,
        typer.Option(help="Minimise the bound after this many server steps (the paper's goal).", rich_help_panel=BOUND),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Bring the bound down to this value as soon as possible.", rich_help_panel=BOUND),
    ] = None,
    loss: Annotated[
        float | None,
        typer.Option(help="Instead of a time: reach this loss as soon as possible, or with the least energy."),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="What to minimise: `worst` (the loss of the worst speed group) or `worst=0.3` (0.3 of it and 0.7 of "
            "the mean); with --loss `time` "
            "(default) or `energy`. By bound, what to minimise with --epsilon: `time` (default), `steps`, `energy`, or "
            "`mix=0.3` (share of energy); without a budget: `throughput`, as many steps per unit of time as possible, "
            "or your own objective, `package.module:Class(key=value)`."
        ),
    ] = None,
    concurrency: Annotated[
        str | None,
        typer.Option("--concurrency", "-C", help="Tasks in flight (default: chosen by the planner)."),
    ] = None,
    cap: Cap = None,
    correction: Annotated[
        float | None,
        typer.Option(help="Exponent of an update's weight: 0 = all count alike, 1 = unbiased (default: 0.5)."),
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(
            help="Where to search the sampling: `simplex`, `clusters` or `clusters=K` (by speed), `power` (of "
            "speed), `grid` (the paper's 50 points).",
            rich_help_panel=BOUND,
        ),
    ] = None,
    reading: Annotated[
        str | None,
        typer.Option(
            help="How the bound counts staleness: `indicator` (default) or `conditional`.", rich_help_panel=BOUND
        ),
    ] = None,
    free_step: Annotated[
        bool,
        typer.Option(
            "--free-step",
            help="Let the step size exceed the theorem's largest, as the paper's figures do.",
            rich_help_panel=BOUND,
        ),
    ] = False,
    constants: Annotated[
        Path | None,
        typer.Option(
            help="File from `sojourn calibrate`: the model of training then compares policies, and the step size is "
            "chosen. By bound: a TOML file with A, L and B, or A, L, sigma2 and G2 (and R2)."
        ),
    ] = None,
    twin: Annotated[
        bool, typer.Option("--twin", help="Choose by the model of training, with generic constants if none are given.")
    ] = False,
    skewed: Annotated[
        bool,
        typer.Option(
            "--skewed", help="Tell the model of training that slow clients hold data which fast clients lack."
        ),
    ] = False,
    weights: Annotated[
        str | None,
        typer.Option(help="Weight of a client in the objective: `equal` (default) or `data`.", rich_help_panel=BOUND),
    ] = None,
    floor: Annotated[
        float | None, typer.Option(help="Smallest sampling probability of any client.", rich_help_panel=BOUND)
    ] = None,
    unequal: Annotated[
        bool, typer.Option("--unequal", help="Let equal clients get different probabilities.", rich_help_panel=BOUND)
    ] = False,
    server_rate: Annotated[
        float | None,
        typer.Option(
            help="Updates that the server applies per second, one after the other (default: at once).",
            rich_help_panel=BOUND,
        ),
    ] = None,
    server_power: Annotated[
        float | None,
        typer.Option(help="Power of the server while it applies an update, in watts.", rich_help_panel=BOUND),
    ] = None,
    sensitivity: Annotated[
        bool, typer.Option(help="Also plan with inputs that are wrong by 20%.", rich_help_panel=BOUND)
    ] = True,
    law_check: Annotated[
        bool, typer.Option(help="Also simulate the plan under other service laws.", rich_help_panel=BOUND)
    ] = True,
    pictures: Pictures = None,
    figure: Figure = "panels",
    seed: Annotated[str, typer.Option(help="Seed of the random starts.")] = "0",
    out: Annotated[Path | None, typer.Option(help="Write the plan to this file (JSON).")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Choose a policy for a fleet and a time: whom to sample, how many tasks in flight, how to weight updates.

    A fleet and a time are enough. The output shows the policy with its exact throughput, shares and staleness, and
    other policies for comparison. To choose the step size, use `sojourn tune`.

    Examples:
    - `sojourn plan fleet.csv --time 1h --out plan.json`

    - `sojourn plan fleet.csv --time 1h --most-tasks 50 --most-staleness 200`

    - `sojourn plan fleet.csv --time 1h --constants constants.toml --objective worst=0.5`

    - `sojourn plan fleet.csv --loss 0.3 --constants constants.toml`

    - `sojourn plan fleet.csv --time 1h --pictures pictures/ --figure single`

    - `sojourn plan fleet.csv --time 3600 --by bound`

    - `sojourn plan fleet.csv --budget-steps 10000 -C 100 --search grid --free-step`

    - `sojourn plan fleet.csv --epsilon 0.1 --objective mix=0.3 --constants constants.toml`

    """
    from sojourn.cli.plan_by_bound import plan_by_bound
    from sojourn.cli.plan_by_policy import plan_by_policy

    flags: dict[str, Any] = dict(locals())
    for word in ("plan_by_bound", "plan_by_policy", "by", "fleet"):
        flags.pop(word, None)
    flags["pictures"], flags["figure"] = pictures_in(pictures), singly(figure)
    if _by(by, flags) == "bound":
        plan_by_bound(fleet, **{key: value for key, value in flags.items() if key not in OF_THE_POLICY})
    else:
        plan_by_policy(fleet, **{key: value for key, value in flags.items() if key not in ONLY_OF_THE_BOUND})


def _by(given: str | None, flags: dict[str, Any]) -> str:
    """Return the planner that was named, or the one that the flags belong to."""
    from sojourn.errors import InvalidInput

    if given not in (None, "policy", "bound"):
        raise InvalidInput(f"--by must be policy or bound, got '{given}'")
    bound = [key for key in OF_THE_BOUND if flags[key] not in (None, False)]
    policy = [key for key in OF_THE_POLICY if flags[key] not in (None, False)]
    least = (flags["objective"] or "").partition("=")[0]
    if least:
        (policy if least == "worst" or (flags["loss"] and least in ("time", "energy")) else bound).append("objective")
    for mine, others in (("policy", bound), ("bound", policy)):
        if others and (given == mine or (given is None and mine == "bound" and bound)):
            flag = others[0].replace("_", "-")
            of = "bound" if mine == "policy" else "policy"
            raise InvalidInput(f"--{flag} belongs to --by {of}, got it with --by {mine} or a flag of it; leave one out")
    return "bound" if given == "bound" or bound else "policy"
