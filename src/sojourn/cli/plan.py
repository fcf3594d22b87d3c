"""`sojourn plan`: whom to sample, how many tasks in flight, how updates are weighed."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sojourn.cli.arguments import AsJson, Cap, FleetFile, Overwrite, ServerRate

OF_THE_BOUND = (
    *("budget_steps", "epsilon", "search", "reading", "free_step", "weights", "floor", "unequal"),
    *("server_rate", "server_power"),
)
"""Flags that only the bound knows: each of them asks for it."""
ONLY_OF_THE_BOUND = (*OF_THE_BOUND, "sensitivity", "law_check")
OF_THE_POLICY = ("twin", "skewed", "loss", "most_bytes", "model_bytes")
"""Flags that only the choice among policies knows."""


def plan(
    fleet: FleetFile,
    time: Annotated[
        str | None,
        typer.Option(
            "--time",
            "--budget-time",
            help="The time that there is: `90s`, `1h`, `2 days`, or a number in seconds (or in whatever unit of time "
            "the fleet's rates have).",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="`policy` (default): what training does in that time. `bound`: the paper's planner, which minimises "
            "a convergence bound; the flags marked (bound) imply it."
        ),
    ] = None,
    budget_steps: Annotated[
        str | None, typer.Option(help="(bound) Least bound after this many server steps (the paper's).")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="(bound) Soonest until the bound is this small.")] = None,
    loss: Annotated[
        float | None, typer.Option(help="Instead of a time: come down to this loss, soonest or with the least energy.")
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="`worst` (the worst speed group) or `worst=0.3` (its part beside the mean); with --loss `time` "
            "(default) or `energy`. (bound) What to minimise with --epsilon: `time` (default), `steps`, `energy`, or "
            "`mix=0.3` (share of energy); without a budget: `throughput`, as many steps per unit of time as possible, "
            "or one of your own, `package.module:Class(key=value)`."
        ),
    ] = None,
    concurrency: Annotated[
        str | None,
        typer.Option("--concurrency", "-C", help="Tasks in flight (default: chosen too)."),
    ] = None,
    cap: Cap = None,
    correction: Annotated[
        float | None,
        typer.Option(help="Exponent of an update's weight: 0 = as they come, 1 = unbiased (default: 0.5)."),
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(
            help="(bound) Where sampling is looked for: `simplex`, `clusters` or `clusters=K` (by speed), `power` (of "
            "speed), `grid` (the paper's 50 points)."
        ),
    ] = None,
    reading: Annotated[
        str | None, typer.Option(help="(bound) Staleness in it: `indicator` (default) or `conditional`.")
    ] = None,
    free_step: Annotated[
        bool,
        typer.Option(
            "--free-step", help="(bound) Let the step exceed the theorem's largest, as the paper's figures do."
        ),
    ] = False,
    constants: Annotated[
        Path | None,
        typer.Option(
            help="What `sojourn calibrate` wrote: policies are compared by the model of training, and the step size is "
            "chosen. (bound) TOML file with A, L and B, or A, L, sigma2 and G2 (and R2)."
        ),
    ] = None,
    twin: Annotated[
        bool, typer.Option("--twin", help="Choose by the model of training, with generic constants if none are given.")
    ] = False,
    skewed: Annotated[
        bool,
        typer.Option("--skewed", help="Slow clients hold data that fast ones lack: say so to the model of training."),
    ] = False,
    weights: Annotated[
        str | None, typer.Option(help="(bound) Weight of a client in it: `equal` (default) or `data`.")
    ] = None,
    floor: Annotated[float | None, typer.Option(help="(bound) Least sampling probability of every client.")] = None,
    most_tasks: Annotated[str | None, typer.Option(help="Most tasks in flight.")] = None,
    most_staleness: Annotated[float | None, typer.Option(help="Largest mean staleness of every client.")] = None,
    most_bytes: Annotated[
        float | None, typer.Option(help="Most bytes that a client may move in the time; needs --model-bytes.")
    ] = None,
    model_bytes: Annotated[float | None, typer.Option(help="Bytes of the model, one way.")] = None,
    unequal: Annotated[
        bool, typer.Option("--unequal", help="(bound) Let equal clients get different probabilities.")
    ] = False,
    server_rate: ServerRate = None,
    server_power: Annotated[
        float | None, typer.Option(help="(bound) Watts of the server while it applies an update.")
    ] = None,
    sensitivity: Annotated[bool, typer.Option(help="(bound) Plan anew with inputs off by 20%.")] = True,
    law_check: Annotated[bool, typer.Option(help="(bound) Simulate the plan under other service laws.")] = True,
    pictures: Annotated[Path | None, typer.Option(help="Folder for the pictures of the plan.")] = None,
    seed: Annotated[str, typer.Option(help="Seed of the random starts.")] = "0",
    out: Annotated[Path | None, typer.Option(help="Write the plan to this file (JSON).")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Choose a policy for a fleet and a time: whom to sample, how many tasks in flight, how updates are weighed.

    The fleet alone is enough. The policy comes with its exact throughput, shares and staleness, and with others beside
    it. Its step size is left to `sojourn tune`.

    Examples:
    - `sojourn plan fleet.csv --time 1h --out plan.json`

    - `sojourn plan fleet.csv --time 1h --most-tasks 50 --most-staleness 200`

    - `sojourn plan fleet.csv --time 1h --constants constants.toml --objective worst=0.5`

    - `sojourn plan fleet.csv --loss 0.3 --constants constants.toml`

    - `sojourn plan fleet.csv --time 3600 --by bound`

    - `sojourn plan fleet.csv --budget-steps 10000 -C 100 --search grid --free-step`

    - `sojourn plan fleet.csv --epsilon 0.1 --objective mix=0.3 --constants constants.toml`

    """
    from sojourn.cli.plan_by_bound import plan_by_bound
    from sojourn.cli.plan_by_policy import plan_by_policy

    flags: dict[str, Any] = dict(locals())
    for word in ("plan_by_bound", "plan_by_policy", "by", "fleet"):
        flags.pop(word, None)
    if _by(by, flags) == "bound":
        plan_by_bound(fleet, **{key: value for key, value in flags.items() if key not in OF_THE_POLICY})
    else:
        plan_by_policy(fleet, **{key: value for key, value in flags.items() if key not in ONLY_OF_THE_BOUND})


def _by(given: str | None, flags: dict[str, Any]) -> str:
    """The planner that was named, or that the flags are of."""
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
            of = "the bound" if mine == "policy" else "the choice among policies"
            raise InvalidInput(f"--{flag} is of {of}, got it with what is of the other; leave one of them out")
    return "bound" if given == "bound" or bound else "policy"
