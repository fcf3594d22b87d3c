"""Does it pay to plan? Train policies in many cells, and compare them with predictions made before.

    python examples/does_it_pay cells                                    list the cells
    python examples/does_it_pay train digits development --count         how much there is to train
    python examples/does_it_pay train digits development --jobs 2        train it; call it again to go on
    python examples/does_it_pay calibrate held-out                       measure what the model of training needs
    python examples/does_it_pay predict held-out                         what predictors say, into docs/results
    python examples/does_it_pay guess digits --jobs 2                    runs at the step of the model of training
    python examples/does_it_pay collect                                  from the runs to docs/results/does-it-pay
    python examples/does_it_pay report                                   tables and picture of docs/does-it-pay.md

Words choose cells: digits, fashion, cnn, cifar, cifar-1400; development, held-out; parts of names, such as short.
Fashion-MNIST and CIFAR-10 are searched under SOJOURN_DATA. Runs are stored under --out, one CSV file per cell. Held-out
cells are not trained before their predictions are in docs/results/does-it-pay.
"""

import argparse
import os
from pathlib import Path

for _key in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_key, "1")  # one process per core, one thread each


def main() -> None:
    """Run one stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=["cells", "train", "calibrate", "predict", "guess", "collect", "report"])
    parser.add_argument("cells", nargs="*", help="words that choose cells")
    parser.add_argument("--out", type=Path, default=Path("local/does-it-pay"), help="folder of the runs")
    parser.add_argument("--results", type=Path, default=_results(), help="folder of the committed files")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, help="begin no run after this many minutes")
    parser.add_argument("--policies", nargs="+", help="these alone")
    parser.add_argument("--count", action="store_true", help="print how much there is to do, and stop")
    parser.add_argument("--page", type=Path, default=_results().parents[1] / "does-it-pay.md")
    arguments = parser.parse_args()
    import stages

    getattr(stages, arguments.stage)(arguments)


def _results() -> Path:
    return Path(__file__).resolve().parents[2] / "docs" / "results" / "does-it-pay"


if __name__ == "__main__":
    from sojourn.errors import SojournError

    try:
        main()
    except SojournError as error:
        raise SystemExit(f"error: {error}") from None
