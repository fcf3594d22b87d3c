"""The comparisons and sweeps that the documentation shows can be read."""

import re
from pathlib import Path

import pytest

from sojourn import Fleet, Plan
from sojourn.errors import InvalidInput
from sojourn.experiments.comparison import ComparisonSpec
from sojourn.experiments.sweep import Grid

ROOT = Path(__file__).parents[2]


def shown(title: str) -> str:
    text = (ROOT / "docs" / "files.md").read_text("utf-8")
    return re.findall(r"```toml\n(.*?)```", text.partition(f"\n## {title}\n")[2], re.DOTALL)[0]


def test_the_comparison_of_the_documentation(tmp_path):
    (tmp_path / "compare.toml").write_text(shown("Comparison: TOML"))
    comparison = ComparisonSpec.load(tmp_path / "compare.toml")
    assert [algorithm.name for algorithm in comparison.algorithms] == ["uniform", "planned"]
    assert comparison.tuning.step_sizes == (0.03, 0.1, 0.3)
    assert comparison.tuning.seeds == (10_000, 10_001, 10_002)
    assert str(comparison.target) == "accuracy=0.9"


def test_the_sweep_of_the_documentation(tmp_path):
    (tmp_path / "sweep.toml").write_text(shown("Sweep: TOML"))
    grid = Grid.load(tmp_path / "sweep.toml")
    assert len(grid.cells()) == 2 * 3 * 3


def test_the_example_fits_its_fleet_and_plan():
    folder = ROOT / "examples" / "comparison"
    assert len(ComparisonSpec.load(folder / "compare.toml").algorithms) == 4
    Plan.load(folder / "plan.json").check(Fleet.load(folder / "fleet.csv"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "seed = 3",
            "keys are seeds, target, baseline, dispatch, run, tuning, algorithm, plan, got 'seed'; did you mean seeds?",
        ),
        ("run = 3", "run must be a table, got 3; write [run]"),
        ("[run]\nsteps = 3", "key fleet is required in [run]"),
        ("[run]\nfleet = 'f'\nstep = 3", "unknown key 'step'; did you mean steps or "),
        ("[run]\nfleet = 'f'\n[tuning]\nstep_size = [1]", "[tuning]: keys are step_sizes"),
        ("[run]\nfleet = 'f'\n[tuning]\nstep_sizes = 0.1", "step_sizes must be a list of numbers, got 0.1"),
        ("[run]\nfleet = 'f'\n[tuning]\nholdout = 'much'", "holdout of [tuning] must be a number, got 'much'"),
        ("[run]\nfleet = 'f'\n[algorithm]\nname = 'a'", "algorithm must be tables; write [[algorithm]]"),
        ("[run]\nfleet = 'f'\n[[algorithm]]\nconcurrency = 3", "[[algorithm]] number 1 needs a name"),
        ("[run]\nfleet = 'f'\n[[plan]]\nname = 'a'\nrate = 3.0", "[[plan]] a may have plan, sampling, concurrency"),
        ("[run]\nfleet = 'f'\n[[algorithm]]\nname = 'a'\nmodel = 'mlp'", "model must be the same for all algorithms"),
    ],
)
def test_a_comparison_file_with_a_mistake_is_refused(tmp_path, text, message):
    (tmp_path / "compare.toml").write_text(text)
    with pytest.raises(InvalidInput) as raised:
        ComparisonSpec.load(tmp_path / "compare.toml")
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[run]\nfleet = 'f'\n[[method]]\nalgorithm = 'asyncsgd'", "method is now called algorithm"),
        ("[run]\nfleet = 'f'\n[tuning]\nrates = [0.1]", "rates is now called step_sizes"),
        ("[run]\nfleet = 'f'\nrate = 0.1", "key rate is now called step_size"),
        ("[run]\nfleet = 'f'\n[[algorithm]]\nalgorithm = 'fedavg'\nlocal_rate = 1.0", "is now called local_step_size"),
    ],
)
def test_an_old_key_is_refused_with_its_new_name(tmp_path, text, message):
    (tmp_path / "compare.toml").write_text(text)
    with pytest.raises(InvalidInput, match=message):
        ComparisonSpec.load(tmp_path / "compare.toml")
