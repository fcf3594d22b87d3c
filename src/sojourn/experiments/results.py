"""What training returns: a Run, a Comparison or a Sweep, which can be read, shown and drawn."""

import shutil
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sojourn.errors import InvalidInput
from sojourn.files import read_json
from sojourn.learning.run.metrics import read_metrics
from sojourn.own_code import OBJECT
from sojourn.tabular import Tabular
from sojourn.trace import Trace
from sojourn.values import table

if TYPE_CHECKING:
    from sojourn.experiments.compare import Compared  # it needs torch, and a page of a trace does not


@dataclass(frozen=True, eq=False, repr=False)
class Run(Tabular):
    """A training run: its folder, and what is in it.

    `Run("runs/first")` opens one that was trained before, here or by `sojourn train`.
    """

    folder: Path
    """Where it lies."""
    temporary: bool = False
    """Whether the folder is temporary, because none was named: it is removed with this object."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))
        _removed_with(self)
        if not (self.folder / "config.json").exists():
            raise InvalidInput(f"{self.folder} holds no run; name the folder that a run was trained in")

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The contents of config.json: the configuration with everything filled in, hashes and versions."""
        return table(read_json(self.folder / "config.json", "configuration"), "configuration")

    @property
    def config(self) -> dict[str, Any]:
        """The configuration."""
        return table(self.facts.get("config"), "config")

    @cached_property
    def metrics(self) -> list[dict[str, float]]:
        """One row per evaluation."""
        return read_metrics(self.folder)

    @property
    def last(self) -> dict[str, float]:
        """The last evaluation."""
        return self.metrics[-1]

    @property
    def complete(self) -> bool:
        """Whether the run was trained to its end."""
        return (self.folder / "summary.json").is_file()

    @property
    def stopped(self) -> str | None:
        """Why a callback ended the run early; None = none did."""
        path = self.folder / "summary.json"
        found = table(read_json(path, "summary"), f"summary {path}").get("stopped") if self.complete else None
        return None if found is None else str(found)

    @cached_property
    def trace(self) -> Trace:
        """When each of its tasks was dispatched, served and applied."""
        return Trace.load(self.folder / "trace.parquet")

    def state_dict(self) -> dict[str, Any]:
        """The trained model's tensors by their names, for `module.load_state_dict`."""
        from safetensors.torch import load_file

        path = self.folder / "model.safetensors"
        if not path.exists():
            raise InvalidInput(f"the run in {self.folder} is not complete and has no model yet; train it to its end")
        return dict(load_file(path))

    def plot(self, path: str | Path | None = None, axis: str | None = None) -> Any:
        """Accuracy or loss over updates and over time, as a matplotlib figure; with a `path`, it is also written.

        With an `axis` (`time`, `received`, `version` or `gradients`) the figure is one panel that fits a paper:
        `run.plot("accuracy-time", axis="time")` writes it as PDF, SVG and PNG.
        """
        figure = _report("training_figures").curves_figure({self._name: self.metrics}, self._title(), axis)
        return _kept(figure, path, axis is not None)

    @property
    def _name(self) -> str:
        words = [self.config.get(key) for key in ("algorithm", "wrap")]
        return " + ".join(str(one).removeprefix(OBJECT) for one in words if one is not None)

    def _title(self) -> str:
        row = self.last
        worth = "" if row["accuracy"] != row["accuracy"] else f"accuracy {row['accuracy']:.3f}, "
        state = "" if self.complete else ", interrupted"
        done = f"{row['received']:,.0f} updates in time {row['time']:.4g}"
        data = str(self.config.get("data")).removeprefix(OBJECT)
        return f"Run of {self._name} on {data}: {worth}test loss {row['test_loss']:.4g} after {done}{state}"

    def _table(self) -> dict[str, list[float]]:
        rows = self.metrics
        return {key: [row[key] for row in rows] for key in rows[0]} if rows else {}


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Tabular):
    """Algorithms and plans compared: one row per algorithm and axis."""

    folder: Path
    """Its folder, with the tables, the curves and every run."""
    table: Sequence[Mapping[str, Any]]
    """One row per algorithm and axis."""
    curves: Sequence[Mapping[str, Any]]
    """Means with their intervals along each axis."""
    notes: Sequence[str] = ()
    """What a reader should know."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """Runs that failed, and why."""
    complete: bool = True
    """Whether every run has ended."""
    temporary: bool = False
    """Whether the folder is temporary, because none was named: it is removed with this object."""

    @classmethod
    def of(cls, compared: "Compared", temporary: bool = False) -> "Comparison":
        """A comparison from the result of `experiments.compare`."""
        ended = not (compared.open or compared.failures or compared.interrupted)
        return cls(
            compared.folder, compared.table, compared.curves, compared.notes, compared.failures, ended, temporary
        )

    @property
    def names(self) -> list[str]:
        """The names of what was compared."""
        return list(dict.fromkeys(str(row["algorithm"]) for row in self.table))

    def plot(self, path: str | Path | None = None, axis: str | None = None) -> Any:
        """Mean curves with 95% intervals on every axis, as a matplotlib figure; with a `path`, it is also written.

        With an `axis` (`time`, `received`, `version` or `gradients`) the figure is one panel that fits a paper:
        `comparison.plot("accuracy-time", axis="time")` writes it as PDF, SVG and PNG.
        """
        if not self.curves:
            raise InvalidInput(f"there is nothing to draw in {self.folder}: no run has ended")
        key = str(self.table[0]["judged_by"])
        figure = _report("training_figures").comparison_figure(self.curves, key, self._title(), axis=axis)
        return _kept(figure, path, axis is not None)

    def _title(self) -> str:
        state = "" if self.complete else ", not complete"
        return f"Comparison of {len(self.names)}: {', '.join(self.names)}{state}"

    def __str__(self) -> str:
        """Return what each one reached in the same time, as `print` shows it."""
        lines = [
            f"{row['algorithm']}: {str(row['judged_by']).replace('_', ' ')} {row['mean']:.4g}, "
            f"{row['updates']:,.0f} updates"
            for row in self.table
            if row["axis"] == "time"
        ]
        return "\n".join([self._title(), *lines])

    def _table(self) -> dict[str, list[Any]]:
        return _columns(self.table)

    def __post_init__(self) -> None:
        _removed_with(self)


@dataclass(frozen=True, eq=False, repr=False)
class Sweep(Tabular):
    """Every combination of values with every seed: one row per run."""

    folder: Path
    """Where it lies."""
    runs: Sequence[Mapping[str, Any]]
    """One row per run: its values, how it ended, its last evaluation."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """Runs that failed, and why."""
    temporary: bool = False
    """Whether the folder is temporary, because none was named: it is removed with this object."""

    def _title(self) -> str:
        done = sum(row["state"] == "complete" for row in self.runs)
        return f"Sweep of {len(self.runs):,} runs, {done:,} of them complete"

    def _table(self) -> dict[str, list[Any]]:
        return _columns(self.runs)

    def __post_init__(self) -> None:
        _removed_with(self)


def _removed_with(result: Run | Comparison | Sweep) -> None:
    """Remove a temporary folder when nothing uses its contents any more."""
    if result.temporary:
        weakref.finalize(result, shutil.rmtree, result.folder, ignore_errors=True)


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    keys = dict.fromkeys(key for row in rows for key in row)
    return {key: [row.get(key) for row in rows] for key in keys}


def _kept(figure: Any, path: str | Path | None, alone: bool) -> Any:
    if path is not None:
        figures = _report("figures")
        (figures.save_single if alone else figures.save)(figure, path)
    return figure


def _report(module: str) -> Any:
    """A module of the package `report`, which may not be imported here; it is looked up when something is drawn."""
    return import_module(f"sojourn.report.{module}")
