"""The planner page of the site: `python docs/site/planner_page.py` computes its answers anew, in about a minute."""

import json
from pathlib import Path

NAME = "planner-page.html"
ANSWERS = Path(__file__).parent.parent / "results" / "planner.json"


def page() -> str:
    """Return the page with the answers that are kept, as one HTML file."""
    from sojourn.report.planner.page import static_page

    return static_page(json.loads(ANSWERS.read_text("utf-8")))


def compute() -> None:
    """Compute the answers, and keep them."""
    from sojourn.files import write_text
    from sojourn.report.planner.static_table import table_of_answers

    write_text(ANSWERS, json.dumps(table_of_answers(), separators=(",", ":")) + "\n", "answers of the planner page")


if __name__ == "__main__":
    compute()
