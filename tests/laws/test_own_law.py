"""A law of one's own: one class, complete or refused, and simulated, fitted and written like the package's."""

import math
import pickle
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from sojourn import Fleet, InvalidInput, Law, Plan, fit, measure, simulate
from sojourn.laws import kind
from sojourn.laws.kind import REQUIRED, LawKind, register
from sojourn.random import MOVE, mix, unit
from sojourn.scenario import Scenario
from sojourn.testing import CheckFailed, check_law
from sojourn.timing.simulate.draws import drawn

EXAMPLES = Path(__file__).parents[2] / "examples" / "extending"


@register
@dataclass(frozen=True)
class Flat(LawKind):
    """Uniform on [1 - width, 1 + width]."""

    name = "flat"
    smooth = True
    searched = (0.01, 1.0)

    width: float

    @property
    def scv(self):
        return self.width**2 / 3

    @property
    def longest(self):
        return 1 + self.width

    def log_survival(self, x):
        return np.log(np.clip((1 + self.width - x) / (2 * self.width), 0.0, 1.0))

    def log_density(self, x):
        inside = np.abs(x - 1) <= self.width
        return np.where(inside, -math.log(2 * self.width), -np.inf)

    def mean_beyond(self, x):
        return (np.clip(x, 1 - self.width, 1 + self.width) + 1 + self.width) / 2

    def draw(self, rng, size):
        return rng.uniform(1 - self.width, 1 + self.width, size)

    def numbers(self):
        return (self.width,)

    @staticmethod
    def compiled_draw(numbers, key):
        key += MOVE
        return 1.0 + numbers[0] * (2.0 * unit(mix(key)) - 1.0), key


@register
@dataclass(frozen=True)
class Stalls(LawKind):
    """`short` with probability 1 - chance, otherwise as long as makes the mean one: two parameters, no density."""

    name = "stalls"
    smooth = False

    chance: float
    short: float

    @property
    def long(self):
        return (1 - (1 - self.chance) * self.short) / self.chance

    @property
    def scv(self):
        return (1 - self.chance) * self.short**2 + self.chance * self.long**2 - 1

    @property
    def longest(self):
        return self.long

    def log_survival(self, x):
        return np.where(x < self.short, 0.0, np.where(x < self.long, math.log(self.chance), -np.inf))

    def mean_beyond(self, x):
        return np.where(x < self.short, 1.0, self.long)

    def draw(self, rng, size):
        return np.where(rng.random(size) < self.chance, self.long, self.short)

    def numbers(self):
        return self.chance, self.short, self.long

    @staticmethod
    def compiled_draw(numbers, key):
        key += MOVE
        return (numbers[2] if unit(mix(key)) < numbers[0] else numbers[1]), key


@pytest.mark.parametrize(
    "law",
    [
        *("exponential", "deterministic", "lognormal(sigma=0.8)", "gamma(shape=0.5)", "gamma(shape=30)"),
        *("weibull(shape=0.7)", "weibull(shape=3)", "hyperexponential(scv=4)", "empirical(0 0.5 1 1.5 2)"),
        *("flat(width=0.5)", "stalls(chance=0.1, short=0.5)"),
    ],
)
def test_every_part_of_a_law_describes_the_same_duration(law):
    check_law(law)


@pytest.mark.parametrize(
    "law",
    [
        *("exponential", "deterministic", "lognormal(sigma=0.8)", "gamma(shape=0.5)", "weibull(shape=0.7)"),
        *("hyperexponential(scv=4)", "empirical(0 0.5 1 1.5 2)"),
    ],
)
def test_a_law_called_by_address_draws_the_same_bits_as_its_branch_in_the_engine(law):
    known = Law.parse(law)
    assert drawn(known, 1000, key=3).tobytes() == drawn(known, 1000, key=3, branches=False).tobytes()


def test_a_law_of_your_own_reads_prints_compares_and_pickles_like_any_other():
    law = Law.parse("stalls(chance=0.25, short=0.2)")
    assert law == Law("stalls", 0.25, others=(0.2,)) == Law.of(Stalls(0.25, 0.2))
    assert str(law) == "stalls(chance=0.25, short=0.2)"
    assert hash(law) == hash(Law.parse(str(law)))
    assert pickle.loads(pickle.dumps(law)) == law
    assert Law.parse(f"{__name__}:Stalls(chance=0.25, short=0.2)").kind == law.kind


def test_a_fleet_file_keeps_a_law_of_your_own(tmp_path):
    fleet = Fleet(name=("a",), count=(2,), rate=(1.0,), law=(Law.parse("flat(width=0.5)"),))
    fleet.save(tmp_path / "fleet.csv")
    assert Fleet.load(tmp_path / "fleet.csv").law == fleet.law


def test_reading_a_fleet_file_runs_no_code(tmp_path, monkeypatch):
    (tmp_path / "never_imported.py").write_text("raise SystemExit('ran')")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "fleet.csv").write_text("name,count,rate,law\na,1,1,never_imported:Law(a=1)\n")
    with pytest.raises(InvalidInput, match="names code, which reading a file does not run; import its module first"):
        Fleet.load(tmp_path / "fleet.csv")
    assert "never_imported" not in sys.modules


def test_the_simulator_serves_by_a_law_of_your_own():
    fleet = Fleet(name=("a",), count=(4,), rate=(2.0,), law=(Law.parse("flat(width=0.5)"),))
    trace = simulate(fleet, Plan.uniform(fleet, 4), 2000, start="even", seed=1)
    service = (trace.finished_at - trace.started_at)[trace.applied]
    assert 0.25 <= service.min() < 0.26
    assert 0.74 < service.max() <= 0.75


def test_a_law_that_repeats_one_of_the_package_gives_the_same_run_bit_for_bit():
    @register
    @dataclass(frozen=True)
    class Twin(LawKind):
        name = "twin"
        smooth, scv, longest = False, 0.0, 1.0
        log_survival, mean_beyond, draw, numbers = (
            (lambda self, x: np.where(x < 1, 0.0, -np.inf)),
            (lambda self, x: np.ones_like(x)),
            (lambda self, rng, size: np.ones(size)),
            (lambda self: ()),
        )

        @staticmethod
        def compiled_draw(numbers, key):
            return 1.0, key

    fleet = Fleet(name=("a", "b"), count=(3, 2), rate=(2.0, 1.0), law=(Law("deterministic"),) * 2)
    twin = replace(fleet, law=(Law("twin"),) * 2)
    known, other = (
        measure(f, Plan.uniform(f, 7), 5000, start="even", scenario=Scenario(), seed=1) for f in (fleet, twin)
    )
    assert known.staleness.value.tobytes() == other.staleness.value.tobytes()
    assert known.throughput.value == other.throughput.value


def test_a_fit_finds_the_parameter_of_a_law_of_your_own(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    law = Law.parse("own_law:Lomax(alpha=3)")
    fleet = Fleet(name=("a",), count=(3,), rate=(2.0,), law=(law,))
    trace = simulate(fleet, Plan.uniform(fleet, 3), 5000, start="even", seed=1)
    found = fit(trace, fleet, law="own_law:Lomax")
    assert found.fleet.rate == pytest.approx([2.0], rel=0.1)
    assert found.fleet.law[0].name == "own_law:Lomax"
    assert found.fleet.law[0].parameter == pytest.approx(3.0, rel=0.2)
    assert fit(trace, fleet, law=str(law)).fleet.law == fleet.law


def test_a_law_without_a_range_is_not_fitted_but_may_be_given():
    fleet = Fleet(name=("a",), count=(3,), rate=(2.0,), law=(Law.parse("stalls(chance=0.1, short=0.5)"),))
    trace = simulate(fleet, Plan.uniform(fleet, 3), 1000, start="even", seed=1)
    with pytest.raises(InvalidInput, match="law stalls needs its parameter chance; write for example stalls"):
        fit(trace, fleet, law="stalls")


@pytest.mark.parametrize("part", [part for part in REQUIRED if part not in ("name", "smooth")])
def test_what_a_law_does_not_define_is_an_error_when_it_is_registered(part):
    body = {key: vars(Flat)[key] for key in REQUIRED if key != part}
    half = dataclass(frozen=True)(type("Half", (LawKind,), {**body, "__annotations__": {"width": float}}))
    with pytest.raises(InvalidInput, match=rf"law Half does not define {part} \(.*\); a law has no defaults"):
        register(half)


def test_everything_that_is_missing_is_named_in_one_sentence():
    @dataclass(frozen=True)
    class Empty(LawKind):
        pass

    with pytest.raises(InvalidInput, match=r"does not define name .* scv .* log_survival .* draw .* compiled_draw"):
        register(Empty)
    with pytest.raises(InvalidInput, match="must be a class derived from"):
        register(dict)
    with pytest.raises(InvalidInput, match=r"must be a frozen dataclass .*, got a plain class"):
        register(type("Plain", (Flat,), {"name": "plain"}))


def test_a_name_that_is_taken_is_refused():
    with pytest.raises(InvalidInput, match="the name 'gamma' is taken; give it another one"):
        register(dataclass(frozen=True)(type("Gamma", (Flat,), {"name": "gamma"})))


def _wrong(**parts):
    """The flat law with some parts replaced, each wrong in its own way."""
    name = "wrong-" + next(iter(parts)).replace("_", "-")
    parts = {key: staticmethod(value) if key == "compiled_draw" else value for key, value in parts.items()}
    body = {**parts, "name": name, "__annotations__": {}}
    made = dataclass(frozen=True)(type(f"Wrong{name}", (Flat,), body))
    return register(made)(0.5)


def _stuck(numbers, key):
    return 1.0 + 0.5 * unit(mix(key)), key


def _shifted(numbers, key):
    key += MOVE
    return 1.1 + numbers[0] * (2.0 * unit(mix(key)) - 1.0), key


def _narrow(numbers, key):
    key += MOVE
    return 1.0 + 0.9 * numbers[0] * (2.0 * unit(mix(key)) - 1.0), key


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"scv": 0.1}, "scv is 0.1, but draw gives 0.08"),
        ({"longest": 1.2}, "longest is 1.2, but draw gives 1.5"),
        ({"draw": lambda self, rng, size: rng.uniform(0.0, 1.0, size)}, "mean must be one, draw gives 0.49"),
        ({"draw": lambda self, rng, size: -rng.uniform(0.5, 1.5, size)}, "finite, non-negative durations"),
        ({"log_survival": lambda self, x: -x}, "log_survival must be that of draw"),
        ({"log_density": lambda self, x: -x}, "the density must integrate to one|must describe one law"),
        ({"mean_beyond": lambda self, x: x + 1}, "mean_beyond must follow from survival"),
        ({"compiled_draw": _stuck}, "must return the next key of its stream"),
        ({"compiled_draw": _shifted}, "longest is 1.5, but compiled_draw gives 1.6"),
        ({"compiled_draw": _narrow}, "scv is 0.0833.*, but compiled_draw gives 0.067"),
    ],
)
def test_a_law_whose_parts_disagree_is_caught(parts, sentence, monkeypatch):
    monkeypatch.setattr("sojourn.laws.kind._TABLE", dict(kind._TABLE))
    with pytest.raises(CheckFailed, match=sentence):
        check_law(_wrong(**parts))


def test_a_compiled_draw_that_cannot_be_compiled_is_one_sentence(monkeypatch):
    monkeypatch.setattr("sojourn.laws.kind._TABLE", dict(kind._TABLE))
    law = Law.of(_wrong(compiled_draw=lambda numbers, key: ({}["a"], key)))
    with pytest.raises(InvalidInput, match="law wrong-compiled-draw: compiled_draw cannot be compiled"):
        drawn(law, 1, key=1)


def test_a_compiled_draw_that_loses_bits_of_its_key_is_refused(monkeypatch):
    monkeypatch.setattr("sojourn.laws.kind._TABLE", dict(kind._TABLE))
    law = Law.of(_wrong(compiled_draw=lambda numbers, key: (1.0, key + 1)))  # uint64 + int64 is a float to NumPy
    with pytest.raises(InvalidInput, match=r"compiled_draw must return .*uint64.*, got .*"):
        drawn(law, 1, key=1)
