"""`sojourn algorithms`: the table of methods, or everything about one of them."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.arguments import AsJson

if TYPE_CHECKING:
    from sojourn.learning.algorithms.base import Algorithm

Which = Annotated[
    str | None, typer.Argument(metavar="NAME", help="One method, such as `ca2fl` or `asyncsgd(assignment=pure)`.")
]

HEADS = ("name", "waits for", "sends", "memory", "unbiased", "live")
WIDTHS = (20, 18, 10, 12, 8, 4)
BETWEEN = 2
LEAST = sum(WIDTHS) + BETWEEN * (len(WIDTHS) - 1)  # 82 without the space that short names leave
CLIENTS = 32


def algorithms(name: Which = None, as_json: AsJson = False) -> None:
    """Print the table of methods: what each waits for, sends, keeps and remembers, and whether speeds bias it.

    `unbiased` says whether the method leads to the optimum if clients differ in data and speed, with one local step per
    task and small steps; tests check it by running. Memory counts models at the server, n being the number of clients,
    without those of tasks in flight and of the server's optimiser.

    Examples:
    - `sojourn algorithms`

    - `sojourn algorithms ringleader`

    - `sojourn algorithms "fedbuff(dispatch=routed)" --json`

    """
    from sojourn.learning.algorithms.table import ALGORITHMS, algorithm

    if name is not None:
        found = _entry(algorithm(name))
        _print([found], as_json, _show_one, found)
        return
    entries = [_entry(algorithm(one)) for one in ALGORITHMS]
    _print(entries, as_json, _show_all, entries)


def _entry(made: "Algorithm") -> dict[str, Any]:
    """Return the facts of a method, its options, and whether it runs live."""
    from dataclasses import asdict

    from sojourn.fleet import Fleet
    from sojourn.learning.algorithms.facts import facts_of, options_of
    from sojourn.learning.replay.local import Local
    from sojourn.live.run import why_not_live
    from sojourn.plan import Plan

    fleet = Fleet.of(all=(CLIENTS, 1.0))
    _, scenario = made.timing(fleet, Plan.uniform(fleet, CLIENTS), Local())
    reason = why_not_live(made, scenario)
    return {
        **asdict(facts_of(made)),
        "dispatcher": str(scenario.dispatcher),
        "live": reason is None,
        "why_not_live": reason,
        "server_optimiser": hasattr(made, "server"),
        "options": [asdict(one) for one in options_of(made)],
    }


def _print(entries: list[dict[str, Any]], as_json: bool, show: Any, what: Any) -> None:
    from sojourn.cli.show import to_json

    if as_json:
        typer.echo(to_json({"command": "algorithms", "algorithms": entries}))
    else:
        show(what)


def _show_all(entries: list[dict[str, Any]]) -> None:
    from sojourn.cli.formats import Sheet, gathers
    from sojourn.cli.show import say, width_of

    heads = [*HEADS[:3], "keeps", *HEADS[3:], "waves", "family", "reference"]
    rows = [
        [*_cells(one)[:3], one["client_keeps"], *_cells(one)[3:], _yes(one["waves"]), one["family"], one["reference"]]
        for one in entries
    ]
    if gathers(Sheet("Methods", heads, rows)):
        return
    width = max(width_of(sys.stdout) or 80, 60)
    say(_line(HEADS, width)[0], bold=True)
    for one in entries:
        for line in [*_line(_cells(one), width), *_below(one, width)]:
            say(line)
    for line in _exceptions(entries, width):
        say(line)
    say("more: sojourn algorithms NAME")


def _exceptions(entries: list[dict[str, Any]], width: int) -> list[str]:
    """Return which methods do not run live, reason by reason, and which are not computed in waves."""
    from sojourn.cli.layout import wrapped

    reasons: dict[str, list[str]] = {}
    for one in entries:
        if not one["live"]:
            reasons.setdefault(one["why_not_live"], []).append(one["name"])
    lines = ["live = no (default options), since the method"] if reasons else []
    for reason, names in reasons.items():
        lines += [f"    {line}" for line in wrapped(f"{reason}: {', '.join(names)}", width - 4)]
    without = [one["name"] for one in entries if not one["waves"]]
    but = f" but {', '.join(without)}: its timing depends on the model" if without else ""
    return [*lines, *wrapped(f"waves on a GPU: all{but}", width)]


def _cells(one: dict[str, Any]) -> list[str]:
    sends = {"change of model": "delta"}.get(one["client_sends"], one["client_sends"])
    memory = one["server_memory"].removesuffix(" models").removesuffix(" model")
    return [one["name"], one["waits_for"], sends, memory, _yes(one["unbiased"]), _yes(one["live"])]


def _yes(fact: bool | None) -> str:
    return "not checked" if fact is None else "yes" if fact else "no"


def _line(cells: Any, width: int) -> list[str]:
    """Return a row; the name is never broken, other cells take several lines where they must."""
    from sojourn.cli.layout import wrapped

    spare = width - LEAST  # a narrow terminal takes it from what the server waits for
    widths = [WIDTHS[0], max(8, WIDTHS[1] + min(spare, 12)), *WIDTHS[2:]]
    broken = [[cells[0]], *(wrapped(cell, room) for cell, room in zip(cells[1:], widths[1:], strict=True))]
    tall = max(map(len, broken))
    lines = [[part[row] if row < len(part) else "" for part in broken] for row in range(tall)]
    return [
        (" " * BETWEEN).join(cell.ljust(room) for cell, room in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def _below(one: dict[str, Any], width: int) -> list[str]:
    from sojourn.cli.layout import wrapped

    keeps = "" if one["client_keeps"] == "nothing" else f"; a client keeps {one['client_keeps']}"
    return [f"    {line}" for line in wrapped(f"{one['family']}{keeps}; {one['reference']}", width - 4)]


def _show_one(one: dict[str, Any]) -> None:
    from sojourn.cli.show import say, table

    facts = [
        ("family", one["family"]),
        ("the server waits for", one["waits_for"]),
        ("a client sends", one["client_sends"]),
        ("a client keeps", one["client_keeps"]),
        ("server memory", one["server_memory"]),
        ("unbiased under unequal speeds", _yes(one["unbiased"])),
        ("dispatcher", one["dispatcher"]),
        ("server optimisers", "sgd, momentum, adam, yogi" if one["server_optimiser"] else "its own"),
        ("runs live", "yes" if one["live"] else f"no: {one['why_not_live']}"),
        ("waves on a GPU", "yes" if one["waves"] else "no: its timing depends on the model"),
        ("reference", one["reference"]),
    ]
    table(one["name"], ["fact", "value"], [list(row) for row in facts])
    options = [[item["name"], _value(item["default"]), item["meaning"]] for item in one["options"]]
    if options:
        table("Options", ["option", "default", "meaning"], options)
    else:
        say("It has no options.")


def _value(default: Any) -> str:
    return "none" if default is None else str(default).lower() if isinstance(default, bool) else f"{default}"
