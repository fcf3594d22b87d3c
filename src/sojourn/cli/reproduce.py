"""`sojourn reproduce`: recompute a paper's figures and numbers, and compare each with what the paper prints."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.arguments import AsJson, Overwrite

if TYPE_CHECKING:
    from sojourn.report.reproduction.experiment import Experiment
    from sojourn.report.reproduction.paper import Paper
    from sojourn.report.reproduction.reproduce import Outcome

Name = Annotated[str | None, typer.Argument(help="Name of an experiment, or `all`; `--list` shows the names.")]
Listed = Annotated[bool, typer.Option("--list", help="List the experiments and exit.")]
Fast = Annotated[bool, typer.Option("--fast", help="Run the same experiments with fewer replications.")]
Out = Annotated[Path, typer.Option(help="Folder for the results, with one folder per experiment.")]
Page = Annotated[Path | None, typer.Option(help="Also write the claims between their markers on this page (Markdown).")]
PaperName = Annotated[str | None, typer.Option("--paper", help="Which paper, if several are installed.")]


def reproduce(
    name: Name = None,
    listed: Listed = False,
    fast: Fast = False,
    out: Out = Path("reproduced"),
    page: Page = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    paper: PaperName = None,
) -> None:
    """Repeat a paper's experiments: data (CSV), pictures (SVG and PNG), and a verdict on every claim.

    Each verdict follows from the numbers by the rule that is printed with it. Running the same command again keeps
    finished experiments. A paper is a separate package; this command finds the papers that are installed.

    Examples:
    - `sojourn reproduce --list`

    - `sojourn reproduce two-clusters --fast`

    - `sojourn reproduce all --fast --out reproduced/`

    - `sojourn reproduce all --json`

    """
    from sojourn.report.reproduction.paper import paper_of, papers

    if listed and paper is None:
        list_experiments(papers(), as_json)
    elif listed:
        list_experiments([paper_of(paper)], as_json)
    else:
        make_again(paper_of(paper), name, fast, out, page, overwrite, as_json)


def make_again(
    paper: "Paper", name: str | None, fast: bool, out: Path, page: Path | None, overwrite: bool, as_json: bool
) -> None:
    """Run the experiment of this name, or all experiments of the paper; print and write the claims."""
    from sojourn.cli.show import attempts, to_json
    from sojourn.report.figures import pyplot
    from sojourn.report.reproduction.paper import ALL
    from sojourn.report.reproduction.reproduce import NotKept

    chosen = paper.asked_for(name)
    _check(chosen, out, page, fast, overwrite)
    pyplot()  # if matplotlib is missing, says so now and not after the work
    outcomes, stopped = _run(chosen, out, fast, overwrite)
    if as_json:
        from sojourn.version import __version__

        facts = {"command": "reproduce", "sojourn": __version__, "fast": fast, "complete": stopped is None}
        facts |= {"paper": paper.name}
        typer.echo(to_json({**facts, "experiments": [_content(one) for one in outcomes]}))
    else:
        _show(outcomes, stopped)
    kept = [one for one in outcomes if not (isinstance(stopped, NotKept) and one is stopped.outcome)]
    with attempts() as attempt:
        _write(attempt, kept, out, page, fast, whole=name == ALL and stopped is None)
        _end(stopped, chosen, kept, out)


def _end(
    stopped: KeyboardInterrupt | Exception | None, chosen: "list[Experiment]", outcomes: "list[Outcome]", out: Path
) -> None:
    """Print what stopped the work, if anything did, and what is kept."""
    from sojourn.cli.show import say

    if isinstance(stopped, KeyboardInterrupt):
        again = _go_on(chosen[len(outcomes) :], outcomes, out)
        kept = f"finished experiments are kept in {out}" if outcomes else "no experiment was finished"
        say(f"interrupted; {kept}; continue with: {again}", err=True)
        raise typer.Exit(130)
    if stopped is not None:
        if outcomes:
            failed = chosen[len(outcomes)].name
            say(f"{failed} failed; finished experiments are kept in {out}", err=True)
        raise stopped


def list_experiments(papers: "list[Paper]", as_json: bool) -> None:
    """List the experiments of these papers."""
    from sojourn.cli.show import table, to_json
    from sojourn.version import __version__

    if as_json:
        keys = ("name", "title", "where")
        rows = [
            {"paper": paper.name, **{key: getattr(one, key) for key in keys}}
            for paper in papers
            for one in paper.experiments
        ]
        typer.echo(to_json({"command": "reproduce", "sojourn": __version__, "experiments": rows}))
        return
    for paper in papers:
        rows_shown = [[one.name, one.title, one.where] for one in paper.experiments]
        table(f"{paper.name}: {paper.title}", ["name", "what", "where in the paper"], rows_shown)


def _check(chosen: "list[Experiment]", out: Path, page: Path | None, fast: bool, overwrite: bool) -> None:
    """Refuse, before the work, what would fail after it."""
    from sojourn.report.reproduction.page import check_page
    from sojourn.report.reproduction.reproduce import check

    check(chosen, out, fast, overwrite)
    if page is not None:
        check_page(page, chosen)


def _run(
    chosen: "list[Experiment]", out: Path, fast: bool, overwrite: bool
) -> "tuple[list[Outcome], KeyboardInterrupt | Exception | None]":
    """Run the experiments in turn; return what is finished, and what stopped the next one, if anything did."""
    from sojourn.report.bars import loading_bar
    from sojourn.report.reproduction.reproduce import NotKept, reproduce

    outcomes: list[Outcome] = []
    with loading_bar() as watch:
        try:
            for experiment in chosen:

                def told(what: str, done: int, total: int, label: str = experiment.name) -> None:
                    watch(f"{label}: {what}", done, total)

                one = reproduce(experiment, out, fast, told, overwrite)
                outcomes.append(one)
                ended = "kept; --overwrite repeats it" if one.kept else f"done in {one.seconds:.1f} s"
                watch(f"{experiment.name}: {ended}, in {one.folder}", 0, 0)
        except NotKept as lost:
            return [*outcomes, lost.outcome], lost
        except (KeyboardInterrupt, Exception) as stopped:
            return outcomes, stopped
    return outcomes, None


def _go_on(left: "list[Experiment]", outcomes: "list[Outcome]", out: Path) -> str:
    """Return the command that continues; without --overwrite once something is finished, as that would repeat it."""
    from sojourn.cli.show import called

    words = sys.argv[1:]
    if "--overwrite" not in words or all(one.kept for one in outcomes):
        return called(words)
    again = called([word for word in words if word != "--overwrite"])
    old = [one.name for one in left if (out / one.name).exists()]
    if not old:
        return again
    return f"{again} (--overwrite would repeat the finished ones; give it with {', '.join(old)} by name)"


def _write(
    attempt: Callable[..., None], outcomes: "list[Outcome]", out: Path, page: Path | None, fast: bool, whole: bool
) -> None:
    from sojourn.cli.show import say
    from sojourn.report.reproduction.page import update_page
    from sojourn.report.reproduction.reproduce import write_all

    def write_claims() -> None:
        for path in write_all(outcomes, out, fast):
            say(f"wrote {path}", err=True)

    def write_page(page: Path) -> None:
        for path in update_page(page, [(one.experiment, one.claims) for one in outcomes], fast):
            say(f"wrote {path}", err=True)

    if whole:
        attempt(write_claims)
    if page is not None:
        attempt(write_page, page)


def _content(outcome: "Outcome") -> dict[str, Any]:
    from sojourn.report.reproduction.page import table_rows

    experiment = outcome.experiment
    facts = {"name": experiment.name, "title": experiment.title, "where": experiment.where}
    made = {"folder": str(outcome.folder), "kept": outcome.kept, "seconds": outcome.seconds}
    return {**facts, **made, "claims": table_rows(outcome.claims)}


def _show(outcomes: "list[Outcome]", stopped: KeyboardInterrupt | Exception | None) -> None:
    from collections import Counter

    from sojourn.cli.show import say, table
    from sojourn.report.reproduction.reproduce import NotKept

    for one in outcomes:
        rows = [[each.statement, each.paper, each.ours, each.error, each.verdict] for each in one.claims]
        lost = isinstance(stopped, NotKept) and one is stopped.outcome
        notes = ["its data could not be written" if lost else f"rules, notes and data are in {one.folder}"]
        heads = ["claim", "paper", "ours", "standard error", "verdict"]
        table(
            f"{one.experiment.name}: {one.experiment.title}", heads, rows, notes, most=10_000, least=("standard error",)
        )
    found = Counter(each.verdict for one in outcomes for each in one.claims)
    if found:
        say("; ".join(f"{many} {verdict}" for verdict, many in found.items()))
