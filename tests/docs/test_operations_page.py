"""The page on operations names every number of the metrics port and every event of the log, and only those."""

import ast
import re
from pathlib import Path

from page_links import ROOT

import sojourn.live
from sojourn.live.monitor import HELP, PREFIX
from sojourn.trace import DROPPED, FATES, LOST

PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
REPORTS = ("report", "_report", "note", "write", "_told")


def first_column(head):
    below = PAGE.partition(f"\n{head}\n")[2].partition("\n\n")[0]
    return [re.findall(r"`([^`]+)`", line)[0] for line in below.splitlines()[1:]]


def events():
    """What the code reports, by its literals; tasks that end without an update are reported by their fate."""
    found = set()
    for path in Path(sojourn.live.__file__).parent.glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not (isinstance(call, ast.Call) and len(call.args) == 2):
                continue
            called = ast.unparse(call.func).rpartition(".")[2]
            if called == "kept" or (called in REPORTS and isinstance(call.args[1], ast.Dict | ast.Name | ast.Call)):
                first = call.args[0]
                said = {
                    one.value for one in ast.walk(first) if isinstance(one, ast.Constant) and isinstance(one.value, str)
                }
                found |= said | ({FATES[LOST], FATES[DROPPED]} if "FATES" in ast.unparse(first) else set())
    return found


def test_every_number_of_the_metrics_port_is_explained():
    assert first_column("| number | meaning |") == [f"{PREFIX}{key}" for key in HELP]


def test_every_event_of_the_log_is_explained():
    assert events() >= {"started", "joined", "left", "lost", "dropped", "refused", "expelled", "ended"}
    assert set(first_column("| event | what happened |")) == events()
