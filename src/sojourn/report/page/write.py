"""Write a report: find out what was named, make its parts, and fill one page with them."""

import html
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeGuard

from sojourn.errors import InvalidInput
from sojourn.experiments.results import Comparison, Run, Sweep
from sojourn.experiments.tuned_plan import TunedPlan
from sojourn.files import check_place, read_json, write_text
from sojourn.fleet import Fleet
from sojourn.folders import check_folder, made
from sojourn.plan import Plan
from sojourn.planning.advice import Advice
from sojourn.planning.bound.search import Planned
from sojourn.report.figures import pyplot, save
from sojourn.report.page import found as kinds
from sojourn.report.page import of_comparison, of_plan, of_result, of_run, of_simulation, of_trace, of_tuning
from sojourn.report.page.found import Found, found
from sojourn.report.page.of_seeds import part_of_seeds
from sojourn.report.page.parts import Part, Section, plural, table
from sojourn.report.page.svg import inline
from sojourn.report.page.template import check_libraries, fill, safe
from sojourn.shown import short
from sojourn.timing.exact.analysis import Analysis
from sojourn.timing.observe.observation import Observation
from sojourn.timing.simulate.summary import Summary
from sojourn.trace import Trace
from sojourn.values import items, whole
from sojourn.values import table as table_of

MARK = "sojourn report"  # of our pages, so that nothing else is replaced
MOST_BYTES = 1_900_000  # of a page
MOST_THINGS = 40  # on one page
MOST_RUNS = 8  # whose curves are drawn together


@dataclass(frozen=True)
class Report:
    """A page: its HTML, and where it was written."""

    html: str
    """The whole page."""
    path: Path | None = None
    """Its file; None = it was not written."""
    figures: tuple[Path, ...] = ()
    """Files of its figures, if they were asked for."""

    def save(self, path: str | Path, overwrite: bool = False) -> "Report":
        """Write the page into a file."""
        check_report(Path(path), overwrite)
        write_text(path, self.html, "report")
        return Report(self.html, Path(path), self.figures)

    def __repr__(self) -> str:
        where = "not written" if self.path is None else f"in {self.path}"
        return f"<Report of {len(self.html):,} characters, {where}>"

    def _repr_html_(self) -> str:
        """Show the page in a notebook, apart from the notebook's own style."""
        return f'<iframe style="width:100%;height:40rem;border:0" srcdoc="{html.escape(self.html)}"></iframe>'


def report_of(thing: Any, path: str | Path | None = None, figures: str | Path | None = None, **known: Any) -> Report:
    """Return the page of a result; with a `path`, it is also written. `known` may have its `fleet` and `plan`.

    `figures` is a folder in which each figure is written as SVG and PDF.
    """
    if path is not None:
        check_report(Path(path))
    if figures is not None:
        check_folder(figures)
    parts = parts_of(thing, **known)
    written = page(parts)
    written = written if path is None else written.save(path)
    return written if figures is None else replace(written, figures=tuple(_written(parts, Path(figures))))


def write_report(
    paths: Sequence[Any],
    out: Path,
    figures: Path | None = None,
    *,
    fleet: Any = None,
    plan: Any = None,
    command: str = "",
    overwrite: bool = False,
) -> Report:
    """Write a page about everything that is named; paths may be of different kinds. `figures` is a folder."""
    _check_number(len(paths))
    check_report(out, overwrite)
    if figures is not None:
        check_folder(figures)
    pyplot()  # what is missing is said before the work
    check_libraries()
    things = [one if isinstance(one, Part) else found(one) for one in paths]
    _check_number(sum(len(_begun(one.path)) if _of_seeds(one) else 1 for one in things))
    parts = [part for thing in things for part in parts_of(thing, fleet=fleet, plan=plan)]
    written = page(parts, command).save(out, overwrite)
    return written if figures is None else replace(written, figures=tuple(_written(parts, figures)))


def _check_number(things: int) -> None:
    if not 1 <= things <= MOST_THINGS:
        raise InvalidInput(f"a page can report 1 to {MOST_THINGS} things, got {things}; write several pages")


def _of_seeds(thing: Part | Found) -> TypeGuard[Found]:
    return isinstance(thing, Found) and thing.kind == kinds.SEEDS


def default_place(path: str | Path) -> Path:
    """Return where a report is written if nobody says: in the folder, or next to the file with its name."""
    place = Path(path)
    return place / "report.html" if place.is_dir() else place.with_name(f"{place.stem}-report.html")


def check_report(path: Path, overwrite: bool = False) -> None:
    """Refuse a place that cannot be written, and a file that is not an earlier report of ours."""
    if path.is_file() and not overwrite and path.stat().st_size and not _ours(path):
        raise InvalidInput(f"{path} exists and is no report of sojourn; name another file, or give --overwrite")
    check_place(path, "report")


def _ours(path: Path) -> bool:
    with path.open("rb") as file:
        return f'<meta name="generator" content="{MARK}">'.encode() in file.read(65_536)


def parts_of(thing: Any, fleet: Any = None, plan: Any = None) -> list[Part]:
    """Return the parts of a page about a result, or about something that was found."""
    loaded = Fleet.load(fleet) if isinstance(fleet, str | Path) else fleet
    match thing:
        case Part():
            return [thing]
        case Found():
            return _of_path(thing, loaded, plan)
        case Trace():
            return [of_trace.part_of_trace(thing, thing._title(), loaded, plan)]
        case Plan():
            return [of_plan.part_of_plan(thing, "plan", loaded)]
        case Advice():
            return [of_plan.part_of_advice(thing)]
        case Planned():
            return [of_plan.part_of_planned(thing)]
        case Run():
            return [of_run.part_of_run(thing.folder, thing._title(), loaded, plan)]
        case Comparison():
            return [_of_comparison(thing)]
        case Sweep():
            return [of_comparison.part_of_sweep(thing.folder, thing.runs, thing._title())]
        case TunedPlan():
            return [of_tuning.part_of_tuned(thing)]
        case Observation():
            return [of_result.part_of_observation(thing)]
        case Analysis():
            return [of_plan.part_of_analysis(thing)]
        case Summary():
            return [of_result.part_of_measured(thing)]
        case str() | Path():
            return _of_path(found(thing), loaded, plan)
    return [of_result.part_of_table(thing)]


def _of_comparison(thing: Comparison) -> Part:
    path = thing.folder / "summary.json"
    content = table_of(read_json(path, "summary"), "summary") if path.exists() else {}
    content = {**content, "notes": list(thing.notes), "failures": dict(thing.failures), "complete": thing.complete}
    return of_comparison.part_of_comparison(thing.folder, thing.table, thing.curves, content, thing._title())


def _of_path(thing: Found, fleet: Any, plan: Any) -> list[Part]:
    path = thing.path
    match thing.kind:
        case kinds.TRACE:
            place = path / "trace.parquet" if path.is_dir() else path
            return [of_trace.part_of_trace(place, str(path), fleet, plan)]
        case kinds.PLAN:
            return [of_plan.plan_in(path, fleet)]
        case kinds.RUN:
            return [of_run.part_of_run(path, None, fleet, plan)]
        case kinds.SEEDS:
            begun = _begun(path)
            return [*part_of_seeds(path, begun), *(of_run.part_of_run(one, None, fleet, plan) for one in begun)]
        case kinds.COMPARISON:
            return [of_comparison.comparison_in(path)]
        case kinds.SWEEP:
            return [of_comparison.sweep_in(path)]
        case kinds.TUNING:
            return [of_tuning.tuning_in(path)]
        case kinds.SUMMARY:
            return [of_simulation.part_of_summary(path)]
    return [of_simulation.part_of_simulation(path, fleet, plan)]


def _begun(path: Path) -> list[Path]:
    """Return the folders of the seeds of a run that have begun."""
    what = f"list of seeds {path / 'seeds.json'}"
    told = table_of(read_json(path / "seeds.json", "list of seeds"), what)
    seeds = [whole(one, f"a seed in the {what}") for one in items(told.get("seeds"), f"seeds in the {what}")]
    ready = [one for one in (path / f"seed-{seed}" for seed in seeds) if (one / "config.json").is_file()]
    if not ready:
        raise InvalidInput(f"none of the runs in {path} has begun; train them first")
    return ready


def page(parts: Sequence[Part], command: str = "") -> Report:
    """Return a page with these parts; figures that would make it too large are left out, the last ones first."""
    together = beside(parts)
    facts = {
        "title": short(parts[0].name, 120) if len(parts) == 1 else f"Report of {plural(len(parts), 'part')}",
        "mark": MARK,
        "command": command,
        "date": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M"),
    }
    sections = [*together, *(section for part in parts for section in part.sections)]
    drawn = {id(one): _drawn(one, f"f{at}") for at, one in enumerate(sections, 1)}
    pictures = [(figure, figure["svg"]) for figures in drawn.values() for figure in figures]

    def filled() -> str:
        beginning = [_section(one, drawn) for one in together]
        return fill("report.html", parts=[_with(part, drawn) for part in parts], together=beginning, **facts)

    for figure, _ in pictures:
        figure["svg"] = ""
    room = MOST_BYTES - len(filled().encode())
    if room < 0:
        raise InvalidInput(
            f"the page would have more than {MOST_BYTES:,} bytes without any figure ({MOST_BYTES - room:,}); "
            f"{'report fewer things at a time' if len(parts) > 1 else 'shorten the names in it'}"
        )
    for figure, svg in pictures:
        room -= len(svg.encode())
        if room < 0:
            break
        figure["svg"] = svg
    return Report(filled())


def _drawn(section: Section, prefix: str) -> list[dict[str, Any]]:
    return [
        {"svg": safe(inline(one.figure, one.alt, f"{prefix}-{at}")), "caption": one.caption, "wide": one.wide}
        for at, one in enumerate(section.figures, 1)
    ]


def _with(part: Part, drawn: dict[int, list[dict[str, Any]]]) -> dict[str, Any]:
    return {**vars(part), "sections": [_section(one, drawn) for one in part.sections if not one.empty]}


def _section(section: Section, drawn: dict[int, list[dict[str, Any]]]) -> dict[str, Any]:
    return {**vars(section), "figures": drawn.get(id(section), [])}


def beside(parts: Sequence[Part]) -> list[Section]:
    """Return a section that sets parts of the same kind beside each other."""
    several = [part for part in parts if part.compared]
    if len(several) < 2:
        return []
    heads = list(dict.fromkeys(key for part in several for key in part.compared))
    rows = [[part.name, *(part.compared.get(key) for key in heads)] for part in several]
    section = Section("Side by side", tables=[table("The same numbers of each", ["", *heads], rows)])
    runs = {part.name: part.rows for part in several if part.rows}
    if len(runs) > 1:
        section.figures += of_run.curves(dict(list(runs.items())[:MOST_RUNS]))
    return [section]


def _written(parts: Sequence[Part], folder: Path) -> list[Path]:
    """Write every figure as SVG and PDF; those of several parts have their numbers in front."""
    several = len(parts) > 1
    named = [("together-", section) for section in beside(parts)]
    named += [(f"{at}-" if several else "", section) for at, part in enumerate(parts, 1) for section in part.sections]
    with made(folder):
        return [
            path
            for before, section in named
            for one in section.figures
            for path in save(one.figure, folder / f"{before}{one.name}", (".svg", ".pdf"))
        ]
