"""Claims as tables on a page; on a page of the documentation, between markers.

A section of a page stands between `<!-- reproduce NAME -->` and `<!-- end of NAME -->`, and is replaced as a whole.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.files import check_place, read_text, write_text
from sojourn.report.reproduction.claim import Claim
from sojourn.report.reproduction.experiment import Experiment

Results = Sequence[tuple[Experiment, Sequence[Claim]]]


def claims_table(claims: Sequence[Claim]) -> str:
    """A table of claims, one a line."""
    lines = ["| claim | paper | ours | standard error | verdict | rule and notes |", "|---|---|---|---|---|---|"]
    for one in claims:
        remark = "; ".join(part for part in (one.rule, one.note) if part)
        cells = (one.statement, one.paper, one.ours, one.error, one.verdict, remark)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def section(experiment: Experiment, claims: Sequence[Claim], fast: bool) -> str:
    """What stands between the markers of an experiment."""
    command = f"sojourn reproduce {experiment.name}{' --fast' if fast else ''}"
    return f"{experiment.title}: {experiment.where}. Made by `{command}`.\n\n{claims_table(claims)}"


def whole_page(found: Results, fast: bool) -> str:
    """A page of its own with all claims."""
    parts = [f"## {experiment.name}\n\n{section(experiment, claims, fast)}" for experiment, claims in found]
    return "# The paper's claims, one by one\n\n" + "\n".join(parts)


def check_page(path: Path, experiments: Sequence[Experiment]) -> None:
    """Refuse a page that is not there, cannot be written, or has no place for one of these."""
    if not path.is_file():
        raise UnreadableFile(f"page {path} does not exist; name a page with markers, as docs/paper.md has them")
    text = _read(path)
    for experiment in experiments:
        _replaced(text, experiment.name, "", path)
    check_place(path, "page")


def update_page(path: Path, found: Results, fast: bool) -> None:
    """Replace the sections of these experiments on a page that has markers for them."""
    text = _read(path)
    for experiment, claims in found:
        text = _replaced(text, experiment.name, section(experiment, claims, fast), path)
    write_text(path, text, "page")


def _read(path: Path) -> str:
    return read_text(path, "page")


def _replaced(text: str, name: str, content: str, path: Path) -> str:
    begin, end = f"<!-- reproduce {name} -->", f"<!-- end of {name} -->"
    pattern = re.compile(f"({re.escape(begin)}\n).*?({re.escape(end)})", re.DOTALL)
    if not pattern.search(text):
        raise InvalidInput(f"page {path} has no place for {name}; write the lines {begin} and {end} into it")
    return pattern.sub(lambda found: f"{found[1]}{content}{found[2]}", text)
