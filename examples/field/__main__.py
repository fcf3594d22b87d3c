"""The whole field under one clock: every method in every cell, tuned by the same number of trials.

    python examples/field all                            all of docs/field.md: train, collect, report; again: go on
    python examples/field cells                          list the cells and the methods
    python examples/field train digits --jobs 2          train the cells with this word; again: go on
    python examples/field collect                        from the runs to docs/results/field
    python examples/field report                         tables and picture of docs/field.md
    python examples/field enter my_method:Mine           one method more: its row beside the others, in quick cells

Fashion-MNIST and CIFAR-10 are searched under SOJOURN_DATA. Runs are stored under --out.
"""

import argparse
import os
from pathlib import Path

for _key in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_key, "1")  # one process per core, one thread each

STAGES = {name: name for name in ("cells", "train", "collect", "report", "enter")} | {"all": "everything"}


def main() -> None:
    """Run one stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("words", nargs="*", help="words that choose cells; for enter, the method first")
    parser.add_argument("--out", type=Path, default=Path("local/field"), help="folder of the runs")
    parser.add_argument("--results", type=Path, default=_results(), help="folder of the committed files")
    parser.add_argument("--page", type=Path, default=_results().parents[1] / "field.md")
    parser.add_argument("--jobs", type=int, default=None, help="processes (default: one per core)")
    parser.add_argument("--entries", nargs="+", help="entries whose name has one of these words")
    parser.add_argument("--gradients", type=int, help="length of a run, for a trial (default: that of the field)")
    parser.add_argument("--planned", action="store_true", help="enter: train it under the planner's policy")
    arguments = parser.parse_args()
    import stages

    getattr(stages, STAGES[arguments.stage])(arguments)


def _results() -> Path:
    return Path(__file__).resolve().parents[2] / "docs" / "results" / "field"


if __name__ == "__main__":
    from sojourn.errors import SojournError

    try:
        main()
    except SojournError as error:
        raise SystemExit(f"error: {error}") from None
