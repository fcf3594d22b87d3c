"""Claims as short tables between markers on a page, and complete in CSV files next to the page.

A section of a page stands between `<!-- reproduce NAME -->` and `<!-- end of NAME -->`, and is replaced as a whole.
Rules, notes and standard errors of page.md are in results/page/NAME.csv.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import fill

from sojourn.csv_file import write_csv
from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.files import check_place, read_text, write_text
from sojourn.folders import check_folder
from sojourn.report.reproduction.claim import CSV_ONLY, EXACT, ON_A_PAGE, STROKE, Claim
from sojourn.report.reproduction.experiment import Experiment

Results = Sequence[tuple[Experiment, Sequence[Claim]]]
WIDTH = 100
WHOLE = "\0"  # a space at which a line is not broken


def claims_table(claims: Sequence[Claim]) -> str:
    """A table of claims, one row per claim or part of a claim; those that are only for the CSV file are left out."""
    shown = [one for one in claims if one.short != CSV_ONLY]
    rows = [row for one in shown for row in _rows(one)]
    heads = ["claim", "of", "paper", "ours", "verdict"]
    kept = [at for at, head in enumerate(heads) if head != "of" or any(one.parts for one in shown)]
    lines = [[heads[at] for at in kept], ["---"] * len(kept)]
    lines += [[row[at].replace("|", "\\|") for at in kept] for row in rows]
    made = ["| " + " | ".join(line) + " |" for line in lines]
    made[1] = "|" + "---|" * len(kept)
    return "\n".join(made) + "\n"


def _rows(one: Claim) -> Iterator[tuple[str, ...]]:
    """The rows of a claim; only the first has its name and its verdict."""
    parts = one.parts.split(STROKE)
    papers, ours = _apart(one.paper, len(parts)), _apart(_value(one), len(parts))
    for at, part in enumerate(parts):
        yield one.short or one.statement if at == 0 else "", part, papers[at], ours[at], "" if at else one.verdict


def _apart(values: str, many: int) -> list[str]:
    """One value per row if there is one for each; otherwise all values in the first row."""
    each = values.split(STROKE)
    return each if len(each) == many else [values, *[""] * (many - 1)]


def _value(one: Claim) -> str:
    """What a page shows: the values, each with its standard error if it has one."""
    if one.brief or one.error in ("", "-", EXACT):
        return one.brief or one.ours
    values, errors = one.ours.split(STROKE), one.error.split(STROKE)
    if len(values) != len(errors):
        return one.ours
    return STROKE.join(f"{value} ± {error}" for value, error in zip(values, errors, strict=True))


def section(experiment: Experiment, claims: Sequence[Claim], fast: bool, table: str) -> str:
    """The text between the markers of an experiment; `table` is the path of its CSV file, relative to the page."""
    command = f"`sojourn reproduce {experiment.name}{' --fast' if fast else ''}`".replace(" ", WHOLE)
    about = fill(f"{experiment.title}: {experiment.where}. Made by {command}.", WIDTH, break_on_hyphens=False)
    about = about.replace(WHOLE, " ")
    return f"{about}\n\n{claims_table(claims)}\nRules, notes and standard errors: [{Path(table).name}]({table}).\n"


def whole_page(found: Results, fast: bool) -> str:
    """A separate page with all claims, for a folder that holds the folders of the experiments."""
    parts = [
        f"## {experiment.name}\n\n{section(experiment, claims, fast, f'{experiment.name}/claims.csv')}"
        for experiment, claims in found
    ]
    return "# The paper's claims, one by one\n\n" + "\n".join(parts)


def table_of(page: Path, experiment: Experiment) -> Path:
    """The path of the CSV file of an experiment, relative to the folder of the page."""
    return Path("results", page.stem, f"{experiment.name}.csv")


def check_page(path: Path, experiments: Sequence[Experiment]) -> None:
    """Refuse a page that does not exist, cannot be written, or lacks the markers of one of these experiments."""
    if not path.is_file():
        raise UnreadableFile(f"page {path} does not exist; name a page with markers, as docs/paper.md has them")
    text = _read(path)
    for experiment in experiments:
        _replaced(text, experiment.name, "", path)
    check_place(path, "page")
    check_folder(path.parent / "results" / path.stem)


def update_page(path: Path, found: Results, fast: bool) -> list[Path]:
    """Replace the sections of these experiments on a page that has markers for them, and write their CSV files."""
    text, tables = _read(path), []
    for experiment, claims in found:
        table = table_of(path, experiment)
        text = _replaced(text, experiment.name, section(experiment, claims, fast, table.as_posix()), path)
        tables.append((path.parent / table, claims))
    for place, claims in tables:
        write_csv(place, table_rows(claims), read_back=True)
    write_text(path, text, "page")
    return [*(place for place, _ in tables), path]


def table_rows(claims: Sequence[Claim]) -> list[dict[str, str]]:
    """All fields of claims except those that only the page uses."""
    return [{key: value for key, value in asdict(one).items() if key not in ON_A_PAGE} for one in claims]


def _read(path: Path) -> str:
    return read_text(path, "page")


def _replaced(text: str, name: str, content: str, path: Path) -> str:
    begin, end = f"<!-- reproduce {name} -->", f"<!-- end of {name} -->"
    pattern = re.compile(f"({re.escape(begin)}\n).*?({re.escape(end)})", re.DOTALL)
    if not pattern.search(text):
        raise InvalidInput(f"page {path} has no place for {name}; write the lines {begin} and {end} into it")
    return pattern.sub(lambda found: f"{found[1]}{content}{found[2]}", text)
