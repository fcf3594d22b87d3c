"""`sojourn train`: a run on the virtual clock, in a folder, from flags or from one TOML file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.arguments import AsJson, Concurrency, Sampling
from sojourn.errors import InvalidInput, SojournError

if TYPE_CHECKING:
    from sojourn.train.config import TrainConfig
    from sojourn.train.run import Outcome, Run


def train(
    fleet: Annotated[Path | None, typer.Argument(help="Fleet file; may stand in the run file instead.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the run.")] = Path("run"),
    config: Annotated[
        Path | None, typer.Option(help="Run file (TOML) with what describes a run as keys; flags win.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    plan: Annotated[Path | None, typer.Option(help="Plan file (JSON) with sampling, concurrency, step size.")] = None,
    sampling: Sampling = None,
    concurrency: Concurrency = None,
    algorithm: Annotated[
        str | None,
        typer.Option(
            help="`generalized-asyncsgd` (default), `asyncsgd(assignment=pure, steps=adaptive)`, `fedavg`, "
            "`fedbuff(size=10, staleness=root)`, `favano(contacts=20)`, `quafl(bits=14)`, `fedasync(alpha=0.6)`."
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="`digits` (default), `quadratic(...)`, `logistic(...)`, or `package.module:function`."),
    ] = None,
    partition: Annotated[
        str | None,
        typer.Option(help="`iid` (default), `classes(k=2)`, `dirichlet(alpha=0.3)`, `shards(k=2)`, `natural`."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="`mlp(hidden=64)` (default), `logistic`, `cnn(channels=16)`, `problem`, `package.module:function`."
        ),
    ] = None,
    steps: Annotated[str | None, typer.Option(help="Updates to receive (default 1000).")] = None,
    time: Annotated[float | None, typer.Option(help="Virtual time to run for, instead.")] = None,
    rate: Annotated[float | None, typer.Option(help="Step size (default: the plan's, or 0.1).")] = None,
    server: Annotated[str | None, typer.Option(help="How the server moves: `sgd`, `momentum`, `adam`.")] = None,
    schedule: Annotated[
        str | None, typer.Option(help="`drops(at=500/800, by=0.1)`, `cosine(end=1000)`, with `over=time`.")
    ] = None,
    local_steps: Annotated[str | None, typer.Option(help="Local steps of a task.")] = None,
    local_epochs: Annotated[str | None, typer.Option(help="Passes through a client's examples, instead.")] = None,
    local_rate: Annotated[float | None, typer.Option(help="Rate of the local steps (default: --rate).")] = None,
    batch_size: Annotated[str | None, typer.Option(help="Examples of a local step (default 32).")] = None,
    order: Annotated[str | None, typer.Option(help="A client's batches: `shuffled` or `independent`.")] = None,
    momentum: Annotated[float | None, typer.Option(help="Of the local steps.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Of the local steps.")] = None,
    proximal: Annotated[float | None, typer.Option(help="Pull of the local steps to the model sent.")] = None,
    clip: Annotated[float | None, typer.Option(help="Largest norm of a stochastic gradient.")] = None,
    weights: Annotated[str | None, typer.Option(help="Weight of a client: `equal` or `data`.")] = None,
    start: Annotated[
        str | None, typer.Option(help="Where the tasks begin: one-each, even, routed, stationary.")
    ] = None,
    seed: Annotated[str | None, typer.Option(help="Of timing, batches, partition and first model.")] = None,
    dtype: Annotated[str | None, typer.Option(help="`float32` or `float64`.")] = None,
    evaluate_every: Annotated[str | None, typer.Option(help="Updates between two evaluations.")] = None,
    checkpoint_seconds: Annotated[float, typer.Option(help="Time between two checkpoints.")] = 60.0,
    pictures: Annotated[
        bool, typer.Option("--pictures", help="Draw into the folder who holds what, and the curves of the run.")
    ] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write event files into the folder too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model as the federation would, on the virtual clock.

    Examples:
    - `sojourn train fleet.csv --plan plan.json --data digits --partition "classes(k=2)" --out run/`

    - `sojourn train fleet.csv --algorithm "fedbuff(size=10)" -C 50 --steps 5000 --rate 0.05 --out fedbuff/`

    - `sojourn train --config run.toml --out run/ --resume`

    """
    from sojourn.cli.arguments import whole
    from sojourn.cli.show import to_json

    numbers = {"concurrency": concurrency, "steps": steps, "local_steps": local_steps, "local_epochs": local_epochs}
    numbers |= {"batch_size": batch_size, "seed": seed, "evaluate_every": evaluate_every}
    given: dict[str, Any] = {
        key: whole(key.replace("_", "-"), text) for key, text in numbers.items() if text is not None
    }
    words = {"sampling": sampling, "algorithm": algorithm, "data": data, "partition": partition, "model": model}
    words |= {
        "server": server,
        "schedule": schedule,
        "order": order,
        "weights": weights,
        "start": start,
        "dtype": dtype,
    }
    values = {"time": time, "rate": rate, "local_rate": local_rate, "momentum": momentum, "weight_decay": weight_decay}
    values |= {"proximal": proximal, "clip": clip}
    paths = {"fleet": fleet, "plan": plan}
    given |= {key: value for key, value in {**words, **values}.items() if value is not None}
    given |= {key: str(path) for key, path in paths.items() if path is not None}
    if not checkpoint_seconds >= 0:
        raise InvalidInput(f"checkpoint-seconds must not be negative, got {checkpoint_seconds}")
    if pictures:
        from sojourn.report.figures import pyplot

        pyplot()  # says now, not after the training, that it is missing
    run, outcome = _train(_config(config, given, out if resume else None), out, resume, checkpoint_seconds, tensorboard)
    if pictures:
        _draw(run)
    if as_json:
        typer.echo(to_json({"command": "train", "folder": str(out), "complete": outcome.complete, **outcome.metrics}))
    else:
        _print(outcome)
    if not outcome.complete:
        typer.echo(
            f"interrupted after {outcome.received} updates; go on with: sojourn train --resume --out {out}", err=True
        )
        raise typer.Exit(130)


def _config(path: Path | None, given: dict[str, Any], resumed: Path | None) -> "TrainConfig":
    """From flags and a run file; a run that is only to be resumed is described by its folder."""
    from sojourn.train.config import TrainConfig
    from sojourn.train.run import config_of

    if path is not None:
        return TrainConfig.load(path, **given)
    if not given and resumed is not None:
        return config_of(resumed)
    if "fleet" not in given:
        raise InvalidInput("a run needs a fleet, got none; name a fleet file, or give --config with one in it")
    return TrainConfig(**given)


def _train(config: "TrainConfig", out: Path, resume: bool, seconds: float, tensorboard: bool) -> "tuple[Run, Outcome]":
    try:
        import torch
    except ImportError:
        raise SojournError("training needs PyTorch, which is not installed; pip install 'sojourn[train]'") from None

    from sojourn.cli.train_progress import board, training_bar
    from sojourn.train.run import Run

    torch.set_num_threads(1)
    run = Run(config, out, resume)
    _say(run)
    with training_bar() as bar, board(out if tensorboard else None, run.replay.received) as write:
        write(run.replay.received, run.metrics.last)

        def both(done: int, total: int, facts: dict[str, Any]) -> None:
            bar(done, total, facts)
            write(done, facts)

        return run, run.go(seconds, progress=both)


def _say(run: "Run") -> None:
    """What a user should know before the run."""
    short = run.built.federation.short_batches()
    if short.size:
        typer.echo(
            f"{short.size} clients hold fewer examples than a batch of {run.built.config.batch_size}: "
            "each of their batches is all that they have",
            err=True,
        )
    for key in run.built.unused:
        typer.echo(f"{key.replace('_', '-')} has no effect on {run.built.algorithm.name} in this run", err=True)
    if run.replay.received:
        typer.echo(f"resumed at update {run.replay.received} of {run.total}", err=True)


def _draw(run: "Run") -> None:
    from sojourn.report.figures import who_holds_what
    from sojourn.report.training_figures import curves, read_metrics

    federation, config = run.built.federation, run.built.config
    if federation.dataset.classes:
        table = federation.partition.table(federation.dataset.train_y, federation.dataset.classes)
        title = f"{federation.dataset.name} over {federation.clients} clients, {config.partition}"
        who_holds_what(table, run.folder / "who-holds-what", title)
    curves({config.algorithm: read_metrics(run.folder)}, run.folder / "curves", f"{config.algorithm} in {run.folder}")


def _print(outcome: "Outcome") -> None:
    from sojourn.cli.show import number, table

    facts = outcome.metrics
    names = (
        "received",
        "version",
        "time",
        "gradients",
        "accuracy",
        "test_loss",
        "client_worst",
        "client_50",
        "staleness",
    )
    table(
        f"{outcome.folder}: {'done' if outcome.complete else 'interrupted'}",
        list(names),
        [[number(float(facts[name])) for name in names]],
        [
            "every evaluation is in metrics.csv; the model in model.safetensors"
            if outcome.complete
            else "the last evaluation; all that was received since is in the checkpoint"
        ],
    )
