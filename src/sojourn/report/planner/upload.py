"""Files that are dropped on the planner page: a fleet file, or a log of durations from which a fleet is fitted."""

import csv
import json
import re
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any

from sojourn.errors import InvalidInput, SojournError
from sojourn.files import read_text, write_text
from sojourn.fleet import Fleet
from sojourn.fleet_file import COLUMNS, SECONDS
from sojourn.report.planner.question import MOST_ROWS, rows_for
from sojourn.shown import short
from sojourn.timing.fit.from_log import fit_log
from sojourn.values import table, text

MOST_BYTES = MOST_ROWS
FLEET, LOG = "fleet", "log"
PARQUET = "PAR1"  # first characters of such a file
TAKES = "the page takes a fleet file (CSV or TOML) or a log of durations (CSV)"
WORDS = {  # of the command line, and what a page says instead
    r"name the column with (\w+) \(--\w+ NAME\)": r"rename that column to \1",
    r"with --duration NAME": "called duration",
    r", add --status .*$": ", rename it to status",
    r"; latest = .*$": "",
    r" \([^()]*--[a-z][^()]*\)": "",
}


def read_upload(asked: Any) -> dict[str, Any]:
    r"""Return the rows of a fleet from a file's name and text, with notes on a log; a refusal is an answer too.

    >>> read_upload({"name": "fleet.csv", "text": "name,count,rate\nfast,9,8.0\n"})["groups"]
    [{'name': 'fast', 'count': 9, 'rate': 8.0}]
    >>> read_upload({"name": "fleet.csv", "text": "name,count,rate\nfast,0,8.0\n"})["error"]
    "fleet.csv: count of group 'fast' must be at least 1, got 0; leave the group out"
    """
    try:
        told = table(asked, "a file")
        return _read(text(told.get("name"), "name of a file"), text(told.get("text"), "text of a file"))
    except SojournError as error:
        return {"error": str(error), "field": "file"}


def fleet_in(path: str | Path) -> Fleet:
    """Return the fleet of a file: a fleet file, or a log of durations from which it is fitted."""
    place = Path(path)
    if place.suffix.lower() == ".csv" and kind_of(place.name, read_text(place, "fleet file")) == LOG:
        return fit_log(place).fleet
    return Fleet.load(place)


def _read(name: str, content: str) -> dict[str, Any]:
    if len(content) > MOST_BYTES:
        raise InvalidInput(
            f"a file must have at most {MOST_BYTES / 1e6:g} MB, got {len(content) / 1e6:.3g} MB; "
            "leave out rows or columns"
        )
    shown = short(PurePath(name.replace("\\", "/")).name or "the file", 60)
    _check_kind(shown, content)
    kind = kind_of(shown, content)
    with TemporaryDirectory(prefix="sojourn-") as folder:
        path = Path(folder) / ("file.toml" if shown.lower().endswith(".toml") else "file.csv")
        write_text(path, content.encode("utf-8", "replace").decode(), "file")
        try:
            fleet, notes = _fleet(path, kind)
        except SojournError as error:
            raise InvalidInput(on_page(str(error).replace(str(path), shown))) from None
    return {"name": shown, "kind": kind, "groups": rows_for(fleet), "notes": notes}


def _check_kind(name: str, content: str) -> None:
    """Refuse an empty file, a Parquet file, a plan and other JSON, each by what it is."""
    if not content.strip("\ufeff \t\r\n"):
        raise InvalidInput(f"{name}: the file is empty; {TAKES}")
    if name.lower().endswith(".parquet"):
        raise InvalidInput(f"a fleet file must end in .csv or .toml, got {name}; rename it or convert it")
    if content.startswith(PARQUET):
        raise InvalidInput(f"{name} is a Parquet file; {TAKES}")
    found = None if name.lower().endswith(".toml") else _json(content)
    if found is not None:
        what = "a plan" if {"concurrency", "groups"} <= found.keys() else "JSON"
        raise InvalidInput(f"{name} is {what}, and no fleet or log; {TAKES}")


def _json(content: str) -> dict[str, Any] | None:
    """Return the table that a text is as JSON; None if it is none."""
    if not content.lstrip("\ufeff \t\r\n").startswith("{"):
        return None
    try:
        return dict(json.loads(content.lstrip("\ufeff")))
    except (ValueError, RecursionError):
        return None


def _fleet(path: Path, kind: str) -> tuple[Fleet, list[str]]:
    if kind == FLEET:
        return Fleet.load(path), []
    found = fit_log(path)
    said = map(on_page, found.notes)
    return found.fleet, [f"{one[:1].upper()}{one[1:]}{'' if one.endswith('?') else '.'}" for one in said]


def on_page(sentence: str) -> str:
    """Return a sentence on a log in words that fit a page, where nobody types options.

    >>> on_page("ms read as milliseconds (--time-unit sets another unit)")
    'ms read as milliseconds'
    >>> on_page("log file a.txt has no column ...: name the column with device (--device NAME)")
    'a.txt has no column ...: rename that column to device, or take a fleet file, with columns name, count and rate'
    """
    said = sentence
    for pattern, words in WORDS.items():
        said = re.sub(pattern, words, said)
    if "has no column" in said:
        said = f"{said.removeprefix('log file ')}, or take a fleet file, with columns name, count and rate"
    return said


def kind_of(name: str, content: str) -> str:
    r"""Return whether a file is a fleet or a log: a fleet is TOML, or has two columns of a fleet file.

    >>> kind_of("a.csv", "name,count,rate\n"), kind_of("b.csv", "device,seconds\n"), kind_of("c.toml", "")
    ('fleet', 'log', 'fleet')

    A fleet stays one with semicolons, which its reader then refuses.
    """
    if name.lower().endswith(".toml"):
        return FLEET
    first = content.lstrip("\ufeff \r\n").partition("\n")[0][:10_000]
    heads = ({cell.strip() for cell in next(csv.reader([first], delimiter=mark), [])} for mark in ",;")
    return FLEET if any(len(one & {*COLUMNS, SECONDS}) > 1 for one in heads) else LOG
