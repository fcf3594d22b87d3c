"""Calibration: the measured constants of a training problem with their intervals and spectrum, as constants.toml.

The file begins with the constants that a plan needs, so that it can be used like any other constants file. The table
`calibration` below them says how they were measured. The file holds no data.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from sojourn.constants import Constants
from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.files import read_toml, write_text
from sojourn.fleet import Fleet
from sojourn.landscape import DIRECTIONS, Landscape
from sojourn.measured import LowestMeasured, Measured, PointMeasured
from sojourn.measured_landscape import measured_landscape
from sojourn.shown import quoted
from sojourn.values import items, number, numbers, table, whole
from sojourn.version import __version__

SCHEMA = 1
CONTAINS = "no data: no examples, no labels, no gradients, no parameters of a model; only the numbers in this file"
KEYS = ("A", "L", "sigma2", "G2")
UNKNOWN = Measured(0.0, 0.0, 1.0)  # used where nothing is known about a part from 0 to 1
PLAIN = ("confidence", "clients", "asked", "gradients", "products", "exact")


@dataclass(frozen=True)
class Calibration:
    """The constants of a training problem as they were measured, with intervals; `sojourn.calibrate` returns one."""

    A: Measured
    """A: loss of the first model minus the lowest loss that was reached."""
    L: Measured
    """Largest over the points."""
    sigma2: Measured
    """Largest over points and clients; where not all were asked, extrapolated to all."""
    G2: Measured
    """Largest over points and clients; where not all were asked, extrapolated to all."""
    confidence: float
    """Of the intervals, at least."""
    clients: int
    """Number of clients."""
    asked: int
    """Number of clients that computed gradients."""
    gradients: int
    """Number of stochastic gradients computed, without those of the training itself."""
    products: int
    """Number of Hessian-vector products computed."""
    exact: bool
    """Whether losses and curvatures were computed on all examples; False = on a random sample of them."""
    still: int
    """Number of clients whose gradients have no noise, because one batch holds all their examples."""
    largest_asked: Mapping[str, float]
    """sigma2 and G2 of the clients that computed gradients, largest over points and clients."""
    points: tuple[PointMeasured, ...]
    """What was measured at each point of the training."""
    run: Mapping[str, str | int | float]
    """What the constants belong to: data, partition, model, batch size and so on."""
    lowest: LowestMeasured | None = None
    """What was measured at the lowest loss; None in files of older versions."""
    between: Measured = UNKNOWN
    """Part of the problem that only one speed group knows; where nothing is known, 0 with the interval from 0 to 1."""

    @property
    def constants(self) -> Constants:
        """The constants that the convergence bounds take."""
        return Constants(**{key: getattr(self, key).value for key in KEYS})

    def landscape(self, fleet: Fleet | None = None) -> Landscape:
        """Return the Landscape that the twin plans with; if all clients of `fleet` are equally fast, no group knows
        more.
        """
        between = self.between
        if fleet is not None and len(set((1 / fleet.rate + fleet.link_time).tolist())) == 1:
            between = Measured(0.0, 0.0, 0.0)
        if not self.points or not all(one.eigenvalues and one.residuals for one in self.points):
            raise InvalidInput(
                "a landscape needs points with curvatures, got none; measure again with sojourn calibrate"
            )
        parameters = whole(self.run.get("parameters", DIRECTIONS), "parameters", least=1)
        return measured_landscape(self.points, self.A, self.lowest, between, self.confidence, parameters)

    def landscape_if_any(self) -> Landscape | None:
        """Return the Landscape, or None where the loss does not curve upwards, so that no quadratic resembles it."""
        try:
            return self.landscape()
        except InvalidInput:
            return None

    @property
    def notes(self) -> list[str]:
        """Return sentences that whoever uses the constants should know."""
        return _notes(self.asked, self.clients, self.still, self.largest_asked)

    def save(self, path: str | Path) -> None:
        """Write constants.toml; an existing file is replaced as a whole."""
        write_text(path, "\n".join(_lines(self)) + "\n", "constants file")

    @classmethod
    def load(cls, path: str | Path) -> "Calibration":
        """Read a file that `save` wrote."""
        content = read_toml(path, "constants file")
        told = content.get("calibration")
        if not isinstance(told, dict):
            raise InvalidInput(f"constants file {path} has no table calibration; write it with sojourn calibrate")
        if told.get("schema") != SCHEMA:
            raise UnreadableFile(
                f"constants file {path} has schema {told.get('schema')}, this sojourn reads {SCHEMA}; use a newer one"
            )
        try:
            interval = table(told["interval"], "interval")
            found: dict[str, Any] = {key: _measured([content[key], *items(interval[key], key)], key) for key in KEYS}
            found |= {key: whole(told[key], key) for key in ("clients", "asked", "gradients", "products")}
            found |= {"confidence": number(told["confidence"], "confidence"), "exact": bool(told["exact"])}
            points = tuple(_point(table(one, "point")) for one in items(told["point"], "point"))
            still, largest = _of_clients(told)
            found |= {"points": points, "run": table(told["run"], "run"), "still": still, "largest_asked": largest}
            if "between" in told:  # files of older versions have neither
                found["between"] = _one(told["between"], "between")
            if "lowest" in told:
                lowest = table(told["lowest"], "lowest")
                found["lowest"] = LowestMeasured(*(_one(lowest[key], key) for key in LowestMeasured._fields))
            return cls(**found)
        except (KeyError, InvalidInput) as error:
            raise UnreadableFile(
                f"constants file {path} is incomplete ({type(error).__name__}: {error}); measure again"
            ) from None

    def content(self) -> dict[str, Any]:
        """Return everything as plain values."""
        four = {key: getattr(self, key)._asdict() for key in KEYS}
        plain = {key: getattr(self, key) for key in (*PLAIN, "still", "largest_asked", "notes")}
        points = [_row(one) for one in self.points]
        land = self.landscape_if_any()
        more = {"between": self.between._asdict(), "lowest": _lowest(self.lowest)}
        return {
            **four,
            **plain,
            "points": points,
            "run": dict(self.run),
            **more,
            "landscape": land.content() if land else None,
        }


def notes_of(path: str | Path) -> list[str]:
    """Return the notes in a constants file that was measured; an empty list for one written by hand."""
    told = read_toml(path, "constants file").get("calibration")
    if not isinstance(told, dict):
        return []
    try:
        asked, clients = (whole(told.get(key, 0), key) for key in ("asked", "clients"))
        return _notes(asked, clients, *_of_clients(told))
    except InvalidInput as error:
        raise UnreadableFile(f"constants file {path} is incomplete ({error}); measure again") from None


def _of_clients(told: dict[str, Any]) -> tuple[int, dict[str, float]]:
    """Return how many clients have no noise, and the largest values of those asked; files of older versions have
    neither.
    """
    largest = table(told.get("largest_asked", {}), "largest_asked")
    return whole(told.get("still", 0), "still"), {key: number(value, key) for key, value in largest.items()}


def _notes(asked: int, clients: int, still: int, largest: Mapping[str, float]) -> list[str]:
    said = []
    if asked < clients and largest:
        seen = ", ".join(f"{key} {value:.4g}" for key, value in largest.items())
        said.append(
            f"{asked} of {clients} clients computed gradients: sigma2 and G2 are extrapolated, as if the others "
            f"were like these, whose largest values are {seen}; L is the largest of these clients"
        )
    elif asked < clients:
        said.append(
            f"{asked} of {clients} clients computed gradients: sigma2, G2 and L are the largest of these, and "
            "may be larger for the others"
        )
    if still and still == clients:
        said.append("sigma2 is 0: one batch holds all examples of a client, so its gradient has no noise")
    elif still:
        said.append(f"{still} of {clients} clients have no noise: one batch holds all their examples")
    return said


_MEANING = {
    "A": "loss at the start minus the lowest loss reached; the true minimum may be lower",
    "L": "largest curvature at the points below, of the mean loss and of the clients' own",
    "sigma2": "variance of a stochastic gradient, largest over clients and points",
    "G2": "squared distance of a client's gradient from the mean gradient, largest over clients and points",
}


def _lines(found: Calibration) -> Iterator[str]:
    yield "# Constants of a training problem, measured by sojourn calibrate."
    yield f"# This file contains {CONTAINS}."
    for note in found.notes:
        yield f"# Note: {note}."
    for key, meaning in _MEANING.items():
        yield f"{key} = {_text(getattr(found, key).value)}  # {meaning}"
    yield "\n[calibration]"
    facts = {"schema": SCHEMA, "sojourn": __version__, "contains": CONTAINS, "confidence": found.confidence}
    facts |= {key: getattr(found, key) for key in (*PLAIN[1:], "still", "largest_asked", "notes")}
    facts["between"] = found.between._asdict()
    if found.lowest is not None:
        facts["lowest"] = _lowest(found.lowest)
    yield from _pairs(facts)
    yield "\n[calibration.interval]"
    yield from _pairs({key: list(getattr(found, key)[1:]) for key in KEYS})
    yield "\n[calibration.run]"
    yield from _pairs(found.run)
    land = found.landscape_if_any()
    if land is not None:
        yield "\n[calibration.landscape]  # what the twin plans with"
        yield from _pairs(land.content())
    for one in found.points:
        yield "\n[[calibration.point]]"
        yield from _pairs(_row(one))


def _row(one: PointMeasured) -> dict[str, Any]:
    """Return a point as plain values, without what files of older versions do not have."""
    values = {item.name: _plain(getattr(one, item.name)) for item in fields(one)}
    return {key: value for key, value in values.items() if value is not None}


def _lowest(one: LowestMeasured | None) -> dict[str, Any] | None:
    return None if one is None else {key: value._asdict() for key, value in one._asdict().items()}


def _plain(value: Any) -> Any:
    """Return a measured number as a table, and several of them as one table of lists."""
    if isinstance(value, Measured):
        return value._asdict()
    if isinstance(value, tuple) and value and isinstance(value[0], Measured):
        return {key: [getattr(one, key) for one in value] for key in Measured._fields}
    return list(value) if isinstance(value, tuple) else value


def _pairs(values: Mapping[str, Any]) -> Iterator[str]:
    return (f"{key} = {_text(value)}" for key, value in values.items())


def _text(value: Any) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(_pairs(value))} }}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(_text(one) for one in value)}]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


def _point(told: dict[str, Any]) -> PointMeasured:
    readers: dict[Any, Any] = {int: whole, float: number, Measured: _one}
    readers |= {tuple[float, ...]: _numbers, tuple[Measured, ...]: _several, Measured | None: _one}
    found: dict[str, Any] = {
        item.name: readers[item.type](told[item.name], item.name)
        for item in fields(PointMeasured)
        if item.name in told or item.default is MISSING
    }
    return PointMeasured(**found)


def _measured(three: Sequence[Any], what: str) -> Measured:
    if len(three) != len(Measured._fields):
        raise InvalidInput(f"{what} must be a value with the two ends of its interval, got {quoted(list(three))}")
    return Measured(*(number(one, what) for one in three))


def _one(value: Any, what: str) -> Measured:
    return _measured([table(value, what)[key] for key in Measured._fields], what)


def _numbers(value: Any, what: str) -> tuple[float, ...]:
    return tuple(numbers(value, what))


def _several(value: Any, what: str) -> tuple[Measured, ...]:
    if value == []:  # none were measured
        return ()
    columns = [numbers(table(value, what)[key], what) for key in Measured._fields]
    if len({len(column) for column in columns}) > 1:
        raise InvalidInput(f"{what} must have as many values as ends of intervals, got {list(map(len, columns))}")
    return tuple(Measured(*row) for row in zip(*columns, strict=True))
