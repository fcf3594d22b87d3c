"""`sojourn calibrate`: measure the constants of a training problem."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.arguments import AsJson, Overwrite, Pictures, pictures_in
from sojourn.cli.run_flags import takes_keys
from sojourn.errors import InvalidInput, SojournError
from sojourn.learning.run.config import keys

if TYPE_CHECKING:
    from sojourn.calibration import Calibration
    from sojourn.landscape import Landscape
    from sojourn.learning.run.config import TrainConfig
    from sojourn.measured import Measured

MEASURED = (
    *("fleet", *keys(part="data"), *keys(part="partition"), *keys(part="model"), "batch_size", "order", "weights"),
    *("steps", "step_size", "seed", *keys(part="arithmetic")),
)
"""Keys that decide what is measured: the problem, and the short training during which it is measured."""


@takes_keys(*MEASURED)
def calibrate(
    given: dict[str, Any],
    out: Annotated[Path, typer.Option(help="Write the constants to this file (TOML).")] = Path("constants.toml"),
    config: Annotated[
        Path | None,
        typer.Option(help="Run file (TOML), as for `sojourn train`; flags override it.", show_default=False),
    ] = None,
    gradients: Annotated[str, typer.Option(help="Stochastic gradients to measure, over all points.")] = "400",
    points: Annotated[
        str, typer.Option(help="Points of the training to measure at: the first, the last, and others in between.")
    ] = "3",
    directions: Annotated[str, typer.Option(help="Leading directions of the curvature to find.")] = "10",
    examples: Annotated[str, typer.Option(help="Most examples that losses and curvatures are computed on.")] = "2048",
    confidence: Annotated[float, typer.Option(help="Least probability that an interval holds the true value.")] = 0.95,
    pictures: Pictures = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Measure A, L, sigma^2 and G^2 of a model on its data and clients, for `sojourn plan`.

    Examples:
    - `sojourn calibrate fleet.csv --data digits --partition "classes(k=2)" --model cnn --out constants.toml`

    - `sojourn calibrate --config run.toml --gradients 1200 --points 5 --out constants.toml`

    - `sojourn calibrate fleet.csv --data digits --model cnn --pictures pictures/`

    - `sojourn plan fleet.csv --time 1h --constants constants.toml`

    """
    from sojourn.cli.arguments import check_free, whole
    from sojourn.cli.show import attempts, draw, say, to_json

    drawn = pictures_in(pictures)
    if out.suffix.lower() != ".toml":
        raise InvalidInput(f"--out must end in .toml, got {out}; rename it")
    check_free(overwrite, out, what="constants file")
    effort = {"gradients": gradients, "points": points, "directions": directions, "examples": examples}
    settings = _config(config, given)
    found = _measure(settings, {key: whole(key, text) for key, text in effort.items()}, confidence)
    with attempts() as attempt:
        attempt(found.save, out)
        if as_json:
            typer.echo(to_json({"command": "calibrate", **_version(), **found.content()}))
        else:
            _print(found)
        if drawn is not None:
            from sojourn.report.calibration_figures import calibration_pictures

            attempt(draw, calibration_pictures, found, drawn)
    if as_json:
        return
    say(f"wrote {out}, which contains no data", err=True)
    time = "TIME" if settings.time is None else f"{settings.time:g}"
    what = "plan; TIME is how long training may take, such as 1h" if settings.time is None else "plan"
    words = ["sojourn", "plan", settings.fleet, "--time", time, "--constants", str(out)]
    say(f"{what}: {shlex.join(words)}", err=True)


def _config(path: Path | None, given: dict[str, Any]) -> "TrainConfig":
    """Read the settings from flags and a run file; the training is too short to prepare waves for it."""
    from sojourn.learning.run.config import TrainConfig

    if path is not None:
        return TrainConfig.load(path, **given).resolved(execution="one-by-one")
    if "fleet" not in given:
        raise InvalidInput("a calibration needs a fleet, got none; name a fleet file, or give --config with one in it")
    return TrainConfig(**given, execution="one-by-one")


def _measure(config: "TrainConfig", effort: dict[str, int], confidence: float) -> "Calibration":
    from sojourn.cli.show import progress
    from sojourn.report.bars import loading_bar

    try:
        import torch
    except ImportError:
        raise SojournError("calibration needs PyTorch, which is not installed; pip install 'sojourn[train]'") from None

    from sojourn.experiments.training import calibrated
    from sojourn.learning.calibrate.calibrate import Effort
    from sojourn.learning.run.build import build

    torch.set_num_threads(1)
    wanted = Effort(**effort, confidence=confidence)
    with loading_bar() as watch:
        built = build(config, watch)
    with progress("measuring") as report:
        return calibrated(built, wanted, report)


_MEANING = {
    "A": "first loss minus the lowest reached; at most the first loss",
    "L": "largest curvature found, of the mean loss and of clients",
    "sigma2": "variance of a stochastic gradient, largest over clients",
    "G2": "squared distance from the mean gradient, largest over clients",
}


def _print(found: "Calibration") -> None:
    from sojourn.cli.show import number, table

    level = f"{100 * found.confidence:g}% interval"
    four = {key: getattr(found, key) for key in _MEANING}
    rows = [[key, number(one.value, 4), _range(one, 4), _MEANING[key]] for key, one in four.items()]
    if found.still == found.clients:
        rows[2][2:] = ["none", "no noise: one batch holds all examples of a client"]
    run = found.run
    title = f"{run['model']} ({run['parameters']} parameters) on {run['data']}, {run['partition']}, "
    table(f"{title}batches of {run['batch_size']}", ["constant", "measured", level, "meaning"], rows)
    heads = ["step", "loss", "L", "lead of mean loss", "lowest", "sigma2, mean", "sigma2, largest", "G2, mean"]
    heads.append("G2, largest")
    keys = ("sigma2_mean", "sigma2", "G2_mean", "G2")
    rows = [
        [
            str(one.step),
            *(number(value, 4) for value in (one.loss.value, one.L.value, one.curvature, one.lowest)),
            *(_with_range(getattr(one, key)) for key in keys),
        ]
        for one in found.points
    ]
    land = found.landscape_if_any()
    if land is None:
        table(
            "at points of a short training",
            heads,
            rows,
            [*_notes(found), "no curvature was found that the twin can use"],
        )
        return
    table("at points of a short training", heads, rows)
    table(
        "What the twin plans with", ["constant", "measured", level, "meaning"], _twin_rows(found, land), _notes(found)
    )


_TWIN = {
    "loss": "first loss above the lowest",
    "noise": "sigma2 per unit of loss above the lowest, mean over clients",
    "noise_floor": "sigma2 that remains at the lowest loss",
    "heterogeneity": "G2 per unit of loss above the lowest, mean over clients",
    "heterogeneity_floor": "G2 that remains at the lowest loss",
    "between": "part of the problem that only one speed group knows, 0 to 1",
}


def _twin_rows(found: "Calibration", land: "Landscape") -> list[list[str]]:
    from sojourn.cli.show import number
    from sojourn.measured import Measured
    from sojourn.measured_landscape import settled

    ends = {**land.intervals}
    shown = [Measured(getattr(land, key), *ends[key]) for key in _TWIN]
    rows = [
        [key, number(one.value, 3), _range(one), told] for (key, told), one in zip(_TWIN.items(), shown, strict=True)
    ]
    if found.still == found.clients:
        for row in rows[1:3]:
            row[2:] = ["none", "no noise: one batch holds all examples of a client"]
    lead = Measured(land.curvature[0], *ends["curvature"])
    many = len(land.curvature)
    rows.append(
        ["curvature", number(lead.value, 3), _range(lead), "largest of the mean loss; mean and range over the points"]
    )
    rows.append(
        [f"curvature {many}", number(land.curvature[-1], 3), "", f"the smallest of the {many} that the twin uses"]
    )
    if "trace" in ends:
        traces = [one.trace.value for one in settled(found.points) if one.trace is not None]
        whole = Measured(sum(traces) / len(traces), *ends["trace"])
        rows.append(
            ["trace", number(whole.value, 3), _range(whole), "sum of all curvatures of the mean loss; mean and range"]
        )
    return rows


def _notes(found: "Calibration") -> list[str]:
    """Return notes that a reader of the numbers should know."""
    from sojourn.calibration import UNKNOWN
    from sojourn.learning.calibrate.gradients import ROUNDS

    notes = [f"{found.gradients} stochastic gradients, {found.products} products with Hessians"]
    if found.points[-1].loss.value > found.points[0].loss.value:
        notes.append("the training ended above its first loss; with a lower --step-size it would visit better points")
    notes += found.notes
    if found.asked < found.clients:
        notes.append(f"--gradients {ROUNDS * found.clients * len(found.points)} would include all clients")
    if found.between == UNKNOWN:
        notes.append(
            "fewer than two clients of each speed computed gradients, so `between` is not known; give more --gradients"
        )
    if not found.exact:
        notes.append("losses and curvatures were computed on a random sample of the examples, not on all")
        notes.append("a sample cannot tell how low the loss can get; the twin assumes 0")
    notes.append(
        "A is the decrease that was reached, more may be possible; L is the largest at these points, not everywhere"
    )
    return notes


def _with_range(one: "Measured") -> str:
    from sojourn.cli.show import interval

    return interval(one.low, one.high, 3, one.value)


def _range(one: "Measured", digits: int = 3) -> str:
    from sojourn.cli.cells import Cell
    from sojourn.cli.show import interval, number

    shown = interval(one.low, one.high, digits)
    if one.low > 0 and number(one.low, digits) == number(one.high, digits):
        return Cell(f"exact to {digits} digits", {"low": one.low, "high": one.high})
    return shown


def _version() -> dict[str, str]:
    from sojourn import __version__

    return {"sojourn": __version__}
