"""The results as tables of a page."""

import csv
from pathlib import Path

from world import POWERS, TASKS

Row = dict[str, object]


def kept(path: Path) -> list[Row]:
    """Rows of a file that was written before, with its numbers as numbers."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{key: _value(text) for key, text in row.items()} for row in csv.DictReader(file)]


def _value(text: str) -> object:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def page(cells: list[Row], found: list[Row]) -> str:
    """All tables, dataset by dataset and fleet by fleet."""
    parts = []
    for work, name in dict.fromkeys((str(row["data"]), str(row["fleet"])) for row in cells):
        mine = [row for row in cells if (row["data"], row["fleet"]) == (work, name)]
        parts += [f"### {work}, {name}", "", _grid(mine, "test_loss"), "", _grid(mine, "to_target"), ""]
    return "\n".join([*parts, "### Beside the best", "", _beside(cells), "", "### The bound", "", _verdicts(found), ""])


def _beside(cells: list[Row]) -> str:
    """Loss over that of the best plan of its dataset and fleet, over those on which there is a choice of sampling."""
    grid = [row for row in cells if row["sampling"] in POWERS and row["test_loss"] not in (None, "")]
    cases: dict[tuple[object, object], list[Row]] = {}
    for row in grid:
        cases.setdefault((row["data"], row["fleet"]), []).append(row)
    uneven = {key: rows for key, rows in cases.items() if len({row["sampling"] for row in rows}) > 1}
    times: dict[tuple[object, object], list[float]] = {}
    worst: dict[object, int] = {}
    for rows in uneven.values():
        best = min(_loss(row) for row in rows)
        for row in rows:
            times.setdefault((row["sampling"], row["tasks"]), []).append(_loss(row) / best)
        for tasks in TASKS:
            most = max((row for row in rows if row["tasks"] == tasks), key=_loss)
            worst[most["sampling"]] = worst.get(most["sampling"], 0) + 1
    if not times:
        return "There is no uneven fleet."
    heads = [f"mean (largest) over {len(uneven)} cases", *(f"C = {tasks}" for tasks in TASKS), "worst of its C, times"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for way in POWERS:
        mine = [times[way, tasks] for tasks in TASKS]
        said = [f"{sum(one) / len(one):.2f} ({max(one):.2f})" for one in mine]
        lines.append(f"| {way} | " + " | ".join(said) + f" | {worst.get(way, 0)} |")
    return "\n".join(lines)


def _loss(row: Row) -> float:
    return float(str(row["test_loss"]))


def _grid(mine: list[Row], key: str) -> str:
    what = {"test_loss": "test loss at the end", "to_target": "time to the target"}[key]
    lines = [f"| {what} | " + " | ".join(f"C = {tasks}" for tasks in TASKS) + " |", "|---" * (1 + len(TASKS)) + "|"]
    for way in POWERS:
        row = {cell["tasks"]: cell for cell in mine if cell["sampling"] == way}
        if row:
            lines.append(f"| {way} | " + " | ".join(_said(row[tasks], key) for tasks in TASKS) + " |")
    for cell in mine:
        if cell["sampling"] not in POWERS:
            lines.append(f"| {cell['sampling']} | C = {cell['tasks']}: {_said(cell, key)} |" + " |" * (len(TASKS) - 1))
    return "\n".join(lines)


def _said(cell: Row, key: str) -> str:
    if cell.get("diverged"):
        return "diverged"
    if key == "to_target" and cell["not_reached"]:
        runs = int(str(cell["reached"])) + int(str(cell["not_reached"]))
        return f"{cell['not_reached']} of {runs} did not"
    value = cell[key]
    mark = "*" if cell["edge"] else ""
    return ("" if value in (None, "") else f"{float(str(value)):.3g}") + mark + _unsure(cell, key)


def _unsure(cell: Row, key: str) -> str:
    """A mark where half the interval of the loss is a quarter of it or more."""
    low, value = cell["test_loss_low"], cell["test_loss"]
    if key != "test_loss" or "" in (low, value) or None in (low, value):
        return ""
    return "~" if float(str(value)) - float(str(low)) >= 0.25 * float(str(value)) else ""


def _verdicts(found: list[Row]) -> str:
    head = ("data", "fleet", "constants", "best plan", "loss", "bound picks", "times the best", "free choice")
    head += (
        "times the best",
        "rank correlation",
        "among plans of the same C",
        "without the factor C",
        "picks",
        "times",
    )
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in found:
        free = float(str(row["free_choice_loss"])) / float(str(row["best_loss"]))
        said = (
            *(row["data"], row["fleet"], row["constants"], row["best"], f"{float(str(row['best_loss'])):.3g}"),
            *(row["bound_picks"], _times(row["regret"]), f"C = {row['free_choice_tasks']}", _times(free)),
            *(_correlation(row["rank_correlation"]), _correlation(row["with_the_same_tasks"])),
            *(_correlation(row["milder_rank_correlation"]), row["milder_picks"], _times(row["milder_regret"])),
        )
        lines.append("| " + " | ".join(str(one) for one in said) + " |")
    return "\n".join(lines)


def _times(value: object) -> str:
    return f"{float(str(value)):.2f}"


def _correlation(value: object) -> str:
    return "" if value in (None, "") else f"{float(str(value)):+.2f}"
