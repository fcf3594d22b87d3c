"""Does it pay to plan? Training on a grid of plans, beside what the bound would have chosen.

    python examples/does_it_pay --out does-it-pay

Two datasets, four fleets, four ways to sample, four numbers of tasks; the step size of each tuned on a holdout. Writes
cells.csv, verdicts.csv, page.md and a picture. What is done stays done: call it again to go on. --fast is for a look: a
tenth of the time, fewer seeds.
"""

import argparse
import os
from pathlib import Path

from picture import draw
from tables import kept, page
from trials import constants, trained
from verdict import rows, verdicts
from world import WORK, fleets

from sojourn.csv_file import write_csv
from sojourn.errors import SojournError


def main() -> None:
    """Everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("does-it-pay"))
    parser.add_argument("--data", nargs="+", choices=list(WORK), default=list(WORK))
    parser.add_argument("--fleets", nargs="+", choices=list(fleets()), default=list(fleets()))
    parser.add_argument("--fast", action="store_true")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    cells, found = [], []
    for work in arguments.data:
        known = constants(work, next(iter(fleets().values())), arguments.out, arguments.fast)
        for name in arguments.fleets:
            fleet = fleets()[name]
            print(f"{work}, {name}", flush=True)
            compared = trained(work, name, fleet, known, arguments.out, arguments.fast)
            if compared.interrupted or compared.failures:
                raise SystemExit(f"not finished: {compared.failures or 'interrupted'}; call it again to go on")
            made = rows(work, name, fleet, known, compared)
            cells += made
            found += verdicts(made)
            write_csv(arguments.out / "cells.csv", cells)
            write_csv(arguments.out / "verdicts.csv", found)
    tables = page(kept(arguments.out / "cells.csv"), kept(arguments.out / "verdicts.csv"))
    (arguments.out / "page.md").write_text(tables, "utf-8")
    draw(cells, arguments.out / "does-it-pay")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        main()
    except SojournError as error:
        raise SystemExit(f"error: {error}") from None
