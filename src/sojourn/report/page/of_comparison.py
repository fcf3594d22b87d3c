"""The parts of a page about a comparison and about a sweep."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.csv_file import read_csv
from sojourn.errors import SojournError, UnreadableFile
from sojourn.experiments.statistics import AXES
from sojourn.files import read_json
from sojourn.report.page import of_trace
from sojourn.report.page.made_by import kept_in, say_command
from sojourn.report.page.parts import Part, Section, Shown, called, listed, number, plural, table
from sojourn.report.page.svg import page_style
from sojourn.report.page.timing import timing_of
from sojourn.report.sweep_figures import sweep_figure
from sojourn.report.training_figures import UNITS, comparison_panel
from sojourn.values import items
from sojourn.values import table as table_of

LABELS = {"accuracy": "test accuracy", "test_loss": "test loss"}
ORDER = ("received", "time", "gradients", "version")
MOST_TIMED = 6  # algorithms whose timing is read
Row = Mapping[str, Any]


def part_of_comparison(folder: Path, rows: Sequence[Row], curves: Sequence[Row], content: Row, name: str) -> Part:
    """Return the part about a comparison: its table, its curves, and what its summary says."""
    part = Part(name, "comparison", [])
    names = list(dict.fromkeys(str(row["algorithm"]) for row in rows))
    if not rows:
        part.answer = ["No run of this comparison has ended.", ""]
        part.sections = [*_compared(content), _provenance(folder, content)]
        return part
    key = str(rows[0]["judged_by"])
    in_time = {str(row["algorithm"]): row for row in rows if row["axis"] == "time"}
    part.answer = _answer(names, in_time, key, content)
    part.facts = [(str(len(names)), "algorithms"), (str(_whole(rows[0].get("runs"))), "runs of each")]
    part.sections = [
        _curves(curves, key, rows),
        _table(in_time, key),
        *_targets(rows),
        *_clients(in_time),
        *_timed(folder, names),
    ]
    notes = [f"{str(note)[:1].upper()}{str(note)[1:]}." for note in content.get("notes") or ()]
    failures = content.get("failures") or {}
    if notes or failures:
        section = Section("What to know", notes=notes)
        if failures:
            section.tables.append(
                table("Runs that failed", ["run", "why"], [[one, str(why)] for one, why in failures.items()])
            )
        part.sections.append(section)
    part.sections += [*_compared(content), _provenance(folder, content)]
    return part


def comparison_in(folder: Path) -> Part:
    """Return the part about the comparison in a folder."""
    content = table_of(read_json(folder / "summary.json", "summary"), "summary")
    if "table" not in content:
        raise UnreadableFile(f"{folder / 'summary.json'} is not the summary of a comparison; name the folder of one")
    rows = [_row(one) for one in items(content["table"], "table")]
    key = f"{rows[0]['judged_by']}" if rows else ""
    needed = ("algorithm", "axis", "at", key, f"{key}_low", f"{key}_high")
    there = rows and (folder / "curves.csv").exists()
    lines = read_csv(folder / "curves.csv", "table of curves", needed) if there else []
    curves = [{name: line[name] if at < 2 else _float(line[name]) for at, name in enumerate(needed)} for line in lines]
    for line in curves:
        line["algorithm"] = str(line["algorithm"]).removeprefix("'")
    told = {
        **content,
        "notes": items(content.get("notes", []), "notes"),
        "failures": table_of(content.get("failures", {}), "failures"),
    }
    return part_of_comparison(folder, rows, curves, told, str(folder))


def _row(given: Any) -> dict[str, Any]:
    """Read a row of the table: three texts, and numbers where there are any."""
    row = table_of(given, "a row of the table")
    missing = [key for key in ("algorithm", "axis", "judged_by") if not isinstance(row.get(key), str)]
    if missing:
        raise UnreadableFile(f"the summary of the comparison has a row without {missing[0]}; compare again")
    return row


def _answer(names: Sequence[str], rows: Mapping[str, Row], key: str, content: Row) -> list[str]:
    known = {name: row for name, row in rows.items() if np.isfinite(_float(row.get("mean")))}
    if not known:
        return [
            f"{listed(list(map(called, names)))} were compared, and none has a mean: all of them diverged in some run.",
            "",
        ]
    best = (max if key == "accuracy" else min)(known, key=lambda name: _float(known[name]["mean"]))
    row, word = known[best], LABELS.get(key, key)
    at = number(_float(row.get("at")), 4)
    first = (
        f"{listed(list(map(called, names)))} were compared in the same {at} s over "
        f"{plural(_float(row.get('runs')), 'seed')}: {called(best)} "
        f"reached the best {word}, {_interval(row, 'mean')}."
    )
    others = [one for one in known if one != best and np.isfinite(_float(known[one].get("difference")))]
    mine = _float(row.get("difference"))
    if np.isfinite(mine) and mine != 0:
        sure = _float(row.get("difference_low")) * _float(row.get("difference_high")) > 0
        second = (
            f"Its lead over the baseline is {_interval(row, 'difference')} (95% interval over the seeds), "
            f"{'more than' if sure else 'not more than'} chance explains."
        )
    elif others:
        near = (max if key == "accuracy" else min)(others, key=lambda name: _float(known[name]["mean"]))
        sure = _float(known[near].get("difference_low")) * _float(known[near].get("difference_high")) > 0
        second = (
            f"It is the baseline; {called(near)} comes next, with a difference of "
            f"{_interval(known[near], 'difference')}, "
            f"{'more than' if sure else 'not more than'} chance explains."
        )
    else:
        second = "There are no differences to judge, as nothing else has a mean."
    state = "" if content.get("complete", True) else " The comparison is not complete."
    return [first, second + state]


def _interval(row: Row, key: str) -> str:
    low, high = _float(row.get(f"{key}_low")), _float(row.get(f"{key}_high"))
    ends = f" ({number(low, 4)} to {number(high, 4)})" if np.isfinite(low) else ""
    return f"{number(_float(row.get(key)), 4)}{ends}"


def _curves(curves: Sequence[Row], key: str, rows: Sequence[Row]) -> Section:
    section = Section("What each one learnt")
    for axis in ORDER if curves else ():
        with page_style() as plt:
            figure, panel = plt.subplots(figsize=(4.6, 3.1), layout="constrained")
            comparison_panel(curves, key, axis, None)(panel)
            panel.legend()
        ends = [f"{called(row['algorithm'])} {_interval(row, 'mean')}" for row in rows if row["axis"] == axis]
        at = next((_float(row.get("at")) for row in rows if row["axis"] == axis), float("nan"))
        words = f"{LABELS.get(key, key).capitalize()} over {AXES[axis]}, at {number(at, 4)}: {'; '.join(ends[:8])}"
        section.figures.append(
            Shown(f"curves-{axis}", figure, f"{words}.", f"{words}. Bands are 95% intervals over the seeds.")
        )
        panel.set_xlabel(UNITS.get(axis, AXES[axis]))
    return section


def _table(rows: Mapping[str, Row], key: str) -> Section:
    heads = [
        "algorithm",
        LABELS.get(key, key),
        "difference to the baseline",
        "updates",
        "step size",
        "dispatcher",
        "runs",
        "diverged",
    ]
    lines = [
        [
            name,
            _interval(row, "mean"),
            _interval(row, "difference") if np.isfinite(_float(row.get("difference"))) else "",
            _float(row.get("updates")),
            _float(row.get("step_size")),
            str(row.get("dispatcher") or ""),
            _whole(row.get("runs")),
            _whole(row.get("diverged")),
        ]
        for name, row in rows.items()
    ]
    return Section(
        "In the same time", tables=[table("What each one reached, with 95% intervals over the seeds", heads, lines)]
    )


def _targets(rows: Sequence[Row]) -> list[Section]:
    told = [row for row in rows if row.get("target")]
    if not told:
        return []
    lines = [
        [
            str(row["algorithm"]),
            AXES.get(str(row["axis"]), str(row["axis"])),
            _interval({**row, "to_target": row.get("to_target")}, "to_target"),
            _whole(row.get("reached")),
            _whole(row.get("not_reached")),
        ]
        for row in told
    ]
    heads = ["algorithm", "axis", "cost", "runs that reached it", "runs that did not"]
    return [Section("What the target costs", tables=[table(f"Cost of the target {told[0]['target']}", heads, lines)])]


def _clients(rows: Mapping[str, Row]) -> list[Section]:
    keys = ("client_worst", "client_10", "client_50", "client_90")
    if not any(np.isfinite(_float(row.get(key))) for row in rows.values() for key in keys):
        return []
    heads = ["algorithm", "worst client", "10% are below", "half are below", "90% are below"]
    lines = [[name, *(_float(row.get(key)) for key in keys)] for name, row in rows.items()]
    return [
        Section(
            "How clients fare",
            tables=[table("Accuracy on the clients' own mixes of classes, in the same time", heads, lines)],
        )
    ]


def _timed(folder: Path, names: Sequence[str]) -> list[Section]:
    """Return the timing of each algorithm side by side, from the trace of its first run."""
    if not (folder / "runs.csv").exists():
        return []
    section = Section("Who was busy when")
    lines = []
    runs = read_csv(folder / "runs.csv", "table of runs")
    for index, name in enumerate(names[:MOST_TIMED]):
        row = next(
            (
                one
                for one in runs
                if one.get("algorithm", "").removeprefix("'") == name and one.get("state") == "complete"
            ),
            None,
        )
        place = None if row is None else _cell(folder, str(row.get("cell")))
        if place is None or not (place / "trace.parquet").exists():
            continue
        try:
            timing = timing_of(place, compare=False)
        except SojournError as error:
            section.notes.append(f"The timing of {called(name)} is left out: {error}.")
            continue
        found = of_trace.compared(timing)
        lines.append([name, *found.values()])
        heads = ["algorithm", *found]
        section.figures.append(of_trace.all_over_time(timing, f"tasks-{index + 1}", name))
    if lines:
        section.tables.append(table("Timing of the first run of each, over its whole trace", heads, lines))
    return [section] if lines or section.notes else []


def _cell(folder: Path, key: str) -> Path | None:
    """Return the folder of a run by its hash."""
    return next(folder.glob(f"cells/*-{key}"), None) if key.isalnum() else None


def _provenance(folder: Path, content: Row) -> Section:
    section = Section(
        "Where it comes from",
        tables=[
            table(
                "Folder and version",
                ["what", "value"],
                [["folder", str(folder)], ["sojourn", str(content.get("sojourn", ""))]],
            )
        ],
    )
    say_command(section, content)
    return section


def _compared(content: Row) -> list[Section]:
    if not content.get("comparison"):
        return []
    return [
        Section("What was compared", code=[json.dumps(content["comparison"], indent=1, ensure_ascii=False)[:20_000]])
    ]


def sweep_in(folder: Path, name: str | None = None) -> Part:
    """Return the part about the sweep in a folder."""
    return part_of_sweep(folder, _typed(folder / "runs.csv"), name or str(folder))


def part_of_sweep(folder: Path, rows: Sequence[Row], name: str) -> Part:
    """Return the part about a sweep, from its runs."""
    heads = list(rows[0]) if rows else []
    keys = heads[: heads.index("seed")] if "seed" in heads else []
    ended = [
        {**row, "accuracy": _float(row.get("accuracy")), "test_loss": _float(row.get("test_loss"))}
        for row in rows
        if row.get("state") == "complete" and np.isfinite(_float(row.get("test_loss")))
    ]
    part = Part(name, "sweep", [])
    part.facts = [(f"{len(rows):,}", "runs"), (f"{len(ended):,}", "of them complete")]
    if not ended:
        part.answer = [f"A sweep of {plural(len(rows), 'run')} has no complete run.", ""]
    else:
        shown = "accuracy" if all(np.isfinite(_float(row.get("accuracy"))) for row in ended) else "test_loss"
        points: dict[tuple[Any, ...], list[float]] = {}
        for row in ended:
            points.setdefault(tuple(row[key] for key in keys), []).append(_float(row[shown]))
        means = {point: float(np.mean(values)) for point, values in points.items()}
        best = (max if shown == "accuracy" else min)(means, key=lambda point: means[point])
        words = listed([f"{key} {value}" for key, value in zip(keys, best, strict=True)])
        part.answer = [
            f"{plural(len(ended), 'run')} of {len(rows):,} {'is' if len(ended) == 1 else 'are'} complete, "
            f"over {listed(keys)}.",
            f"The best mean {LABELS[shown]} is {number(means[best], 4)}, with {words}, from "
            f"{plural(len(points[best]), 'seed')}.",
        ]
        section = Section("What the keys do")
        with page_style():
            figure = sweep_figure(ended, keys, True)
        section.figures.append(
            Shown(
                "sweep",
                figure,
                f"{LABELS[shown].capitalize()} over {listed(keys)}; {words} is best.",
                f"Mean and 95% interval over the seeds. Best: {words}, {number(means[best], 4)}.",
                wide=True,
            )
        )
        part.sections.append(section)
    columns = [
        *keys,
        "seed",
        "state",
        *(key for key in ("accuracy", "test_loss", "client_worst", "received", "time") if key in heads),
    ]
    lines = [[row.get(key) for key in columns] for row in rows]
    part.sections.append(Section("All runs", tables=[table("One row per run", columns, lines, 100)]))
    errors = [[str(row.get("cell")), str(row["error"])] for row in rows if row.get("error")]
    if errors:
        part.sections.append(Section("Runs that failed", tables=[table("Why runs failed", ["cell", "error"], errors)]))
    known = [
        key
        for key in ("fleet_hash", "plan_hash", "dataset_hash", "partition_hash", "device", "sojourn", "torch")
        if key in heads
    ]
    told = [[key, listed(sorted({str(row.get(key)) for row in ended}), 4)] for key in known] if ended else []
    facts = table("Folder, hashes and versions", ["what", "value"], [["folder", str(folder)], *told])
    part.sections.append(Section("Where it comes from", tables=[facts]))
    say_command(part.sections[-1], kept_in(folder))
    return part


def _typed(path: Path) -> list[dict[str, Any]]:
    """Read a table with numbers where a cell holds one."""
    needed = ("seed", "state")
    return [{key: _value(cell) for key, cell in row.items()} for row in read_csv(path, "table of runs", needed)]


def _value(text: str) -> Any:
    try:
        return float(text) if not text.lstrip("-").isdigit() else int(text)
    except ValueError:
        return float("nan") if not text else text.removeprefix("'")


def _float(value: Any) -> float:
    try:
        return float("nan") if value is None else float(value)
    except (TypeError, ValueError):
        return float("nan")


def _whole(value: Any) -> int:
    """Return a number of runs; none where it is not known."""
    found = _float(value)
    return int(found) if np.isfinite(found) else 0
