"""`sojourn plan`, as it answers without data."""

import json

import pytest
from typer.testing import CliRunner

from sojourn import Plan
from sojourn.cli.main import app
from sojourn.errors import InvalidInput


def call(*words):
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "80"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout


@pytest.fixture
def fleet(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nfast,90,8\nslow,10,1\n")
    return path


def test_a_fleet_and_a_time_are_enough(fleet):
    out = call("plan", fleet, "--time", "1h")
    for shown in ("robust: nobody waits", "AsyncSGD, uniform", "FedBuff, buffer of 10", "the paper's (bound)"):
        assert shown in out
    assert "2.628e+06 updates in 1 h" in out
    assert "brings in 8.04 times as many updates" in out
    assert "bound of" not in out
    assert max(map(len, out.split("staleness: mean over updates")[0].splitlines())) <= 80


def test_json_has_the_policy_key_by_key(fleet):
    content = json.loads(call("plan", fleet, "--budget-time", 1000, "--json"))
    keys = ("sampling", "concurrency", "cap", "correction", "buffer", "schedule", "step_size")
    assert [content[key] for key in keys] == [
        {"fast": 0.01, "slow": 0.01},
        *(100, 1, 0.5, None, "linear(end=budget)", None),
    ]
    assert content["policies"][0]["policy"] == "robust: nobody waits"
    assert content["promises"]["throughput"] == pytest.approx(730)
    assert len(content["why"]) >= 4


def test_the_plan_file_is_what_was_shown(fleet, tmp_path):
    call("plan", fleet, "--time", "10 min", "-C", 40, "--correction", 0, "--out", tmp_path / "plan.json")
    plan = Plan.load(tmp_path / "plan.json")
    assert (plan.concurrency, plan.correction, plan.one_each, plan.promises["time"]) == (40, 0, True, 600)


def test_pictures_are_drawn(fleet, tmp_path):
    call("plan", fleet, "--time", 5, "--pictures", tmp_path / "pictures")
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == [
        "plan-policies.png",
        "plan-policies.svg",
    ]


@pytest.mark.parametrize("flags", [("--budget-steps", "1e4", "-C", 100), ("--epsilon", 1), ("--floor", 0.001)])
def test_flags_that_only_the_bound_knows_ask_for_it(fleet, flags):
    time = [] if flags[0] != "--floor" else ["--time", 10]
    assert "minimised" in call("plan", fleet, *time, *flags, "--no-sensitivity", "--no-law-check")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give --time, the time that training may take"),
        (("--time", "soon"), "time must be a number, or a duration such as 90s"),
        (("--time", "0"), "time must be positive and finite"),
        (("--time", "1h", "--by", "guess"), "--by must be policy or bound, got 'guess'"),
        (("--time", "1h", "--by", "policy", "--epsilon", "1"), "--epsilon is of the bound"),
        (("--time", "1h", "--correction", "5"), "correction must be a number from 0"),
        (("--time", "1h", "-C", "101"), "concurrency must be at most the 100 tasks"),
        (("--time", "1h", "--cap", "0"), "cap"),
    ],
)
def test_nonsense_is_refused_in_a_sentence(fleet, words, said):
    with pytest.raises(InvalidInput, match=said):
        call("plan", fleet, *words)


def test_constants_of_the_bound_alone_are_refused_with_the_way_out(fleet, tmp_path):
    (tmp_path / "abc.toml").write_text("A = 100\nL = 1\nB = 20\n")
    with pytest.raises(InvalidInput, match="holds constants of the bound alone; measure with sojourn calibrate"):
        call("plan", fleet, "--time", 5, "--constants", tmp_path / "abc.toml")
