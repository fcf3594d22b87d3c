"""Files that are dropped on the planner page: a fleet file, or a log of durations from which a fleet is fitted."""

import csv
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any

from sojourn.errors import InvalidInput, SojournError
from sojourn.fleet import Fleet
from sojourn.fleet_file import SECONDS
from sojourn.report.planner.question import MOST_CLIENTS, MOST_GROUPS, rows_of
from sojourn.shown import short
from sojourn.timing.fit.from_log import fit_log
from sojourn.values import table, text

MOST_BYTES = 5_000_000
FLEET, LOG = "fleet", "log"


def read_upload(asked: Any) -> dict[str, Any]:
    """Return the rows of a fleet from a file's name and text, with notes on a log; a refusal is an answer too.

    >>> read_upload({"name": "fleet.csv", "text": "name,count,rate\\nfast,9,8.0\\n"})["groups"]
    [{'name': 'fast', 'count': 9, 'rate': 8.0}]
    >>> read_upload({"name": "fleet.csv", "text": "name,count,rate\\nfast,0,8.0\\n"})["error"]
    "fleet.csv: count of group 'fast' must be at least 1, got 0; leave the group out"
    """
    try:
        told = table(asked, "a file")
        return _read(text(told.get("name"), "name of a file"), text(told.get("text"), "text of a file"))
    except SojournError as error:
        return {"error": str(error), "field": "file"}


def _read(name: str, content: str) -> dict[str, Any]:
    if len(content) > MOST_BYTES:
        raise InvalidInput(
            f"a file must have at most {MOST_BYTES / 1e6:g} MB, got {len(content) / 1e6:.3g} MB; use sojourn fit"
        )
    shown = short(PurePath(name.replace("\\", "/")).name or "the file", 60)
    kind = kind_of(shown, content)
    with TemporaryDirectory(prefix="sojourn-") as folder:
        path = Path(folder) / ("file.toml" if shown.lower().endswith(".toml") else "file.csv")
        path.write_text(content, "utf-8", errors="surrogatepass")
        try:
            fleet, notes = _fleet(path, kind)
        except SojournError as error:
            raise InvalidInput(str(error).replace(str(path), shown)) from None
    if fleet.groups > MOST_GROUPS or fleet.clients > MOST_CLIENTS:
        raise InvalidInput(
            f"{shown}: the page takes at most {MOST_GROUPS:,} groups and {MOST_CLIENTS:,} clients, got "
            f"{fleet.groups:,} and {fleet.clients:,}; use sojourn plan"
        )
    return {"name": shown, "kind": kind, "groups": rows_of(fleet), "notes": notes}


def _fleet(path: Path, kind: str) -> tuple[Fleet, list[str]]:
    if kind == FLEET:
        return Fleet.load(path), []
    found = fit_log(path)
    return found.fleet, [f"{one[:1].upper()}{one[1:]}." for one in found.notes]


def kind_of(name: str, content: str) -> str:
    """Return whether a file is a fleet or a log: a fleet is TOML, or has columns `name` and a rate.

    >>> kind_of("a.csv", "name,count,rate\\n"), kind_of("b.csv", "device,seconds\\n"), kind_of("c.toml", "")
    ('fleet', 'log', 'fleet')
    """
    if name.lower().endswith(".toml"):
        return FLEET
    first = content.lstrip("\ufeff \r\n").partition("\n")[0][:10_000]
    heads = {cell.strip() for cell in next(csv.reader([first]), [])}
    return FLEET if "name" in heads and heads & {"rate", SECONDS, "count"} else LOG
