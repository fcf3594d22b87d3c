"""`sojourn plan`: a policy for a time, compared with the usual ones, and the reasons."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from sojourn.planning.advice import Advice

MOST_NAMES = 1000  # that are tried to find a free one
FEW = 12  # up to this many groups are shown one by one


def plan_by_policy(
    fleet: Path,
    *,
    time: str | None,
    loss: float | None,
    objective: str | None,
    concurrency: str | None,
    cap: str | None,
    correction: float | None,
    constants: Path | None,
    twin: bool,
    skewed: bool,
    most_tasks: str | None,
    most_staleness: float | None,
    most_bytes: float | None,
    model_bytes: float | None,
    pictures: Path | None,
    figure: bool,
    seed: str,
    out: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Choose the robust policy, or the one that the model of training ranks first; print it, and write it if asked."""
    from sojourn.cli.arguments import check_free, tasks_of, whole
    from sojourn.cli.show import attempts, progress, to_json
    from sojourn.errors import InvalidInput
    from sojourn.fleet import Fleet
    from sojourn.landscape import Landscape
    from sojourn.plan_text import cap_of
    from sojourn.planning.make_plan import advice_for
    from sojourn.planning.policy import Wishes
    from sojourn.planning.search import Aim

    check_free(overwrite, out, what="plan file")
    loaded = Fleet.load(fleet)
    if (time is None) == (loss is None):
        got = "got both" if time is not None else "got neither"
        raise InvalidInput(f"give --time, the time that training may take (--time 1h), or --loss, {got}")
    wishes = Wishes(
        concurrency=tasks_of(concurrency),
        correction=correction,
        most_tasks=None if most_tasks is None else whole("most-tasks", most_tasks),
        most_staleness=float("inf") if most_staleness is None else most_staleness,
        **({} if cap is None else {"cap": cap_of(loaded, cap)}),
    )
    if (most_bytes is None) != (model_bytes is None):
        raise InvalidInput("--most-bytes and --model-bytes go together, got one of them; give both")
    aim = Aim(_worst(objective), float("inf") if most_bytes is None else most_bytes, model_bytes or 0.0, wishes)
    landscape = None if constants is None else Landscape.load(constants)
    asked = twin or skewed or loss is not None or most_bytes is not None or aim.worst > 0
    if landscape is None and asked:
        landscape = Landscape.generic()
    if landscape is not None and skewed:
        landscape = landscape.skewed()
    with progress("comparing policies") as report:
        advice = advice_for(
            loaded,
            time=time,
            loss=loss,
            landscape=landscape,
            aim=aim,
            least=objective if loss is not None and objective else "time",
            seed=whole("seed", seed),
            progress=report,
        )
    with attempts() as attempt:
        if out is not None:
            attempt(_save, advice, out)
        if as_json:
            typer.echo(to_json({"command": "plan", **advice.facts()}))
        else:
            print_advice(advice, fleet, out, time)
        if pictures is not None:
            attempt(_draw, advice, pictures, figure)


def _worst(objective: str | None) -> float:
    """Return the part of the worst speed group in the objective."""
    from sojourn.errors import InvalidInput

    word, _, part = (objective or "").partition("=")
    if word != "worst":
        return 0.0
    try:
        found = float(part) if part else 1.0
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        raise InvalidInput(f"--objective worst must have a part from 0 to 1, got '{objective}'; write worst=0.3")
    return found


def print_advice(advice: "Advice", file: Path, out: Path | None, time: str | None) -> None:
    """Print the plan by groups, the policies side by side, and then sentences; `time` is the time as the user wrote
    it.
    """
    from sojourn.cli.show import amount, count, number, percent, say, table
    from sojourn.durations import shown
    from sojourn.shown import whole

    plan, fleet = advice.plan, advice.fleet
    shares, stale = plan.promises["share"], plan.promises["staleness"]
    tasks, updates = f"{plan.concurrency:,} task{'s' * (plan.concurrency > 1)}", advice.rows[0].updates
    table(
        f"{tasks} in flight, {whole(updates)} updates in {shown(advice.time)}",
        ["group", "clients", "rate", "updates", "share of updates", "staleness"],
        [
            [
                fleet.name[g],
                count(fleet.count[g]),
                number(float(fleet.rate[g]), 4),
                amount(float(fleet.count[g] * shares[g]) * updates),
                percent(fleet.count[g] * shares[g]),
                number(stale[g], 4),
            ]
            for g in range(fleet.groups)
        ],
        most=FEW,
    )
    learnt = any(row.loss is not None for row in advice.rows)
    table(
        "other policies in the same time",
        ["policy", "tasks", "updates", "staleness", "slowest", "idle", *(["loss"] if learnt else [])],
        [
            [
                row.policy.name,
                count(row.policy.plan.concurrency),
                amount(row.updates),
                number(row.staleness, 4),
                number(row.slowest, 4),
                number(row.idle, 3),
                *([number(row.loss, 3) if row.loss is not None else "-"] if learnt else []),
            ]
            for row in advice.rows
        ],
    )
    say("staleness: mean over updates, in updates; slowest: of the stalest clients; idle: clients without work")
    if learnt:
        say("loss: by the model of training, good for ranks and ratios only; the losses themselves are far too low")
    for sentence in advice.why:
        say(sentence)
    _say_next(file, out, f"{advice.time:g}" if time is None else time)


def _say_next(file: Path, out: Path | None, time: str) -> None:
    """Print the commands that come next: write the plan if that was not asked for, then find a step size for it."""
    from sojourn.cli.command import again
    from sojourn.cli.show import say

    first, made = "next", str(out)
    if out is None:
        made = f"plan{_number('plan{}.json')}.json"
        say(f"next: {again('--out', made)}")
        first = "then"
    more = _number("tuned{}.json", "tuning{}")
    words = [str(file), "--plan", made, "--time", time, "--data", "digits", "--out", f"tuned{more}.json"]
    words += ["--folder", f"tuning{more}"] if more else []
    say(f"{first}: {shlex.join(['sojourn', 'tune', *words])}")


def _number(*names: str) -> str:
    """Return what makes these names free, with it in place of the braces: nothing, or `-2` and so on."""
    endings = ("", *(f"-{number}" for number in range(2, MOST_NAMES)))
    return next((end for end in endings if not any(Path(name.format(end)).exists() for name in names)), "")


def _save(advice: "Advice", path: Path) -> None:
    from sojourn.cli.command import made_by
    from sojourn.cli.show import say

    advice.save(path, made_by())
    say(f"wrote {path}", err=True)


def _draw(advice: "Advice", folder: Path, alone: bool) -> None:
    from sojourn.cli.show import say
    from sojourn.report.advice_figure import advice_pictures

    for path in advice_pictures(advice, folder, alone):
        say(f"wrote {path}", err=True)
