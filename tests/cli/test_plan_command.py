"""`sojourn plan`, and its plan through `analyze` and `simulate`."""

import json

import numpy as np
import pytest
from typer import Exit
from typer.testing import CliRunner

from sojourn import Fleet, Plan, analyze
from sojourn.cli.main import app, run
from sojourn.errors import InvalidInput, SojournError, UnwritableFile

BOUND = ["--by", "bound", "--budget-time"]
QUICK = ["--no-sensitivity", "--no-law-check"]


def call(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def fleet(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nfast,90,8\nslow,10,1\n")
    return path


def test_help_shows_examples():
    assert "sojourn plan fleet.csv --time 1h --out plan.json" in call("plan", "--help")


def test_the_plan_is_shown_with_others_beside_it_and_says_what_it_rests_on(fleet):
    out = call("plan", fleet, *BOUND, 1000)
    for words in (
        "sample fast clients 2.2x as often as slow ones; 14 tasks in flight; bound 53% lower than uniform, 100 tasks",
        "uniform, 14 tasks",
        "by speed, 14 tasks",
        "the paper's, 14 tasks",
        "A 20% more",
        "fast clients' rates 20% less",
        "A worst-case bound was minimised",
        "pessimistic about concurrency",
        "constants (the paper's worked example; measure your own: sojourn calibrate): A = 100, L = 1, B = 20",
        "the service law matters",
        "simulated with deterministic: throughput +",
    ):
        assert words in out


def test_simulation_keeps_the_promises(fleet, tmp_path):
    path = tmp_path / "plan.json"
    call("plan", fleet, *BOUND, 1000, "--out", path, *QUICK)
    assert Plan.load(path).concurrency == 14
    shown = call("analyze", fleet, "--plan", path)
    assert "the plan minimised Theorem 1's bound after 1000 units of time: step size 0.0041082, bound 0.561561" in shown
    assert "throughput and staleness are as the plan promises" in shown
    words = ["simulate", fleet, "--plan", path, "--steps", "2e5", "-R", "20", "--seed", "3"]
    content = json.loads(call(*words, "--json"))
    assert [row["promise"] for row in content["promises"]] == ["throughput", "staleness of fast", "staleness of slow"]
    for row in content["promises"]:
        assert row["standard_error"] < 0.02 * row["promised"]
        assert abs(row["simulated"] - row["promised"]) <= 4 * row["standard_error"]
        assert row["z"] == pytest.approx((row["simulated"] - row["promised"]) / row["standard_error"])
    assert "every promise is kept within 4 standard errors" in call(*words)


def test_promises_with_links_and_a_server_are_kept_too(tmp_path):
    path = tmp_path / "fleet.toml"
    Fleet(("a", "b"), [3, 5], [4.0, 1.0], uplink_rate=[2.0, 5.0], downlink_rate=[3.0, 3.0]).save(path)
    call("plan", path, *BOUND, 500, "--server-rate", 8, "--out", tmp_path / "plan.json", *QUICK)
    words = ["simulate", path, "--plan", tmp_path / "plan.json", "--steps", "1e5", "-R", "20", "--warmup", "1000"]
    content = json.loads(call(*words, "--json"))
    assert len(content["promises"]) == 3
    for row in content["promises"]:
        assert abs(row["z"]) <= 4


def test_a_broken_promise_is_reported(fleet, tmp_path):
    path = tmp_path / "plan.json"
    call("plan", fleet, *BOUND, 1000, "--out", path, *QUICK)
    content = json.loads(path.read_text())
    content["promises"]["throughput"] *= 1.2
    path.write_text(json.dumps(content))
    assert "differs by up to 16.7% from what the plan promises" in call("analyze", fleet, "--plan", path)
    out = call("simulate", fleet, "--plan", path, "--steps", "1e5", "-R", "10")
    assert "not kept within 4 standard errors: throughput" in out


def test_a_promise_that_too_few_updates_cannot_judge_is_neither_kept_nor_broken(fleet, tmp_path):
    path = tmp_path / "plan.json"
    call("plan", fleet, *BOUND, 1000, "--out", path, *QUICK)
    out = call("simulate", fleet, "--plan", path, "--steps", "1")
    assert "too few updates to tell: throughput, staleness of fast, staleness of slow; use more --steps" in out
    assert "not kept" not in out


def test_a_plan_for_another_fleet_is_refused_with_the_way_out(fleet, tmp_path):
    path = tmp_path / "plan.json"
    call("plan", fleet, *BOUND, 1000, "--out", path, *QUICK)
    fleet.write_text("name,count,rate\nfast,90,7\nslow,10,1\n")
    for verb in ("analyze", "simulate"):
        with pytest.raises(InvalidInput, match=r"made for fleet \w+, this is fleet \w+; make a new plan, or remove"):
            call(verb, fleet, "--plan", path)


@pytest.mark.slow
def test_json_carries_everything_at_full_precision(fleet):
    content = json.loads(call("plan", fleet, *BOUND, 1000, "--json"))
    assert content["concurrency"] == 14
    assert content["promises"]["bound"] == pytest.approx(0.5615607089184, rel=1e-12)
    assert content["groups"][0]["sampling"] == pytest.approx(0.01058525, rel=1e-6)
    assert {row["name"] for row in content["comparison"]} >= {"uniform, 14 tasks", "this plan"}
    assert len(content["sensitivity"]) == 9
    assert {row["law"] for row in content["laws"]} == {"deterministic", "lognormal(sigma=1)"}
    assert content["constants"] == {"A": 100, "L": 1, "B": 20}
    assert content["constants_given"] is False
    assert content["parking"] is None
    assert content["searched"][0]["concurrency"] < 14 < content["searched"][-1]["concurrency"]


def test_steps_take_one_task_per_client_and_say_so(fleet):
    result = CliRunner().invoke(app, ["plan", str(fleet), "--budget-steps", "1e4", "--free-step", *QUICK])
    assert "tasks in flight: 100, one per client" in result.output
    assert "sample slow clients 13x as often as fast ones" in result.output


@pytest.mark.parametrize("search", ["grid", "clusters", "clusters=2", "power"])
def test_every_family_can_be_asked_for(fleet, search):
    content = json.loads(
        call("plan", fleet, "--budget-steps", "1e4", "-C", 100, "--free-step", "--search", search, "--json", *QUICK)
    )
    assert content["promises"]["bound"] == pytest.approx(2.35982729, rel=1e-5)


def test_constants_are_read_from_a_file(fleet, tmp_path):
    path = tmp_path / "constants.toml"
    path.write_text("A = 10\nL = 2\nsigma2 = 3\nG2 = 4\n")
    out = call("plan", fleet, *BOUND, 1000, "--constants", path, *QUICK)
    assert "constants (given): A = 10, L = 2, sigma2 = 3, G2 = 4" in out


def test_energy_and_mixes(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate,power\nfast,9,8,40\nslow,1,1,1\n")
    found = {}
    for objective in ("time", "energy", "mix=0.5", "steps"):
        words = ["plan", path, "--epsilon", 1, "--objective", objective, "--json", *QUICK]
        found[objective] = json.loads(call(*words))["promises"]
    assert found["time"]["time"] < found["mix=0.5"]["time"] < found["energy"]["time"]
    assert found["time"]["energy"] > found["mix=0.5"]["energy"] > found["energy"]["energy"]
    assert found["steps"]["steps"] <= found["time"]["steps"]


@pytest.mark.slow
def test_the_pictures_are_drawn(fleet, tmp_path):
    call("plan", fleet, *BOUND, 1000, "--pictures", tmp_path / "pictures", *QUICK)
    names = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert names == {"plan-bound.png", "plan-bound.svg", "plan-trade-off.png", "plan-trade-off.svg"}


def test_the_fleets_own_law_is_simulated(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate,law\nfast,5,1.2,deterministic\nslow,5,1,deterministic\n")
    content = json.loads(call("plan", path, *BOUND, 100, "-C", 100, "--no-sensitivity", "--json"))
    (check,) = content["laws"]
    assert check["law"] == "the fleet's own laws"
    assert check["matters"] is True
    assert check["throughput"] > 0.01  # without chance nobody waits for nothing
    assert len(check["staleness"]) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give --time, the time that training may take"),
        ([*BOUND, "0"], "time must be positive and finite, got 0"),
        ([*BOUND, "10", "--epsilon", "1"], "budgets time and epsilon exclude each other"),
        (["--budget-steps", "many"], "budget-steps must be a whole number, got 'many'"),
        ([*BOUND, "10", "--floor", "0.02"], "floor must lie between 0 and 1/n = 0.01, got 0.02"),
        ([*BOUND, "10", "-C", "50", "--most-staleness", "10"], "use at most 11 tasks"),
        ([*BOUND, "10", "-C", "0"], "concurrency must be a whole number from 1"),
        ([*BOUND, "10", "-C", "1e12"], "concurrency must be a whole number from 1"),
        ([*BOUND, "10", "--search", "clusters=x"], "--search must be simplex, clusters, clusters=K"),
        ([*BOUND, "10", "--search", "clusters=²"], "--search must be simplex, clusters, clusters=K"),
        (["--epsilon", "1", "--objective", "time=3"], "--objective must be time, steps, energy, mix=S"),
        ([*BOUND, "10", "--objective", "throughput"], "'throughput' cannot be combined with a budget of time"),
        ([*BOUND, "10", "--search", "guess"], "search must be simplex"),
        ([*BOUND, "10", "--reading", "other"], "reading must be conditional or indicator, got 'other'"),
        ([*BOUND, "10", "--weights", "data"], "'fast' has none; add data_size"),
        (["--epsilon", "1", "--objective", "energy"], "needs the powers of every group, 'fast' lacks one"),
        (["--epsilon", "1", "--objective", "mix"], "--objective mix must give the share of energy"),
        ([*BOUND, "9", "--objective", "mix=0.5"], "a mix of time and energy needs epsilon"),
        ([*BOUND, "10", "--server-rate", "-1"], "server_rate must be positive, got -1"),
        ([*BOUND, "10", "--constants", "none.toml"], "constants file none.toml does not exist"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_in_one_sentence_and_nothing_is_written(fleet, tmp_path, words, message):
    out = tmp_path / "plan.json"
    with pytest.raises(SojournError, match=message) as caught:
        call("plan", fleet, *words, "--out", out, "--pictures", tmp_path / "pictures", *QUICK)
    assert "\n" not in str(caught.value)
    assert not out.exists()
    assert not (tmp_path / "pictures").exists()


def test_what_cannot_be_written_is_refused_before_planning(fleet, tmp_path):
    with pytest.raises(UnwritableFile, match=r"cannot write plan file .*: No such file or directory; check the folder"):
        call("plan", fleet, *BOUND, 10, "--out", tmp_path / "none" / "plan.json")
    with pytest.raises(UnwritableFile, match=r"cannot write to .*fleet\.csv: it is a file; name a folder"):
        call("plan", fleet, *BOUND, 10, "--pictures", fleet)
    with pytest.raises(UnwritableFile, match=r"cannot write to /proc/none: No such file or directory"):
        call("plan", fleet, *BOUND, 10, "--pictures", "/proc/none", *QUICK)


def test_ctrl_c_is_reported(fleet, monkeypatch, capsys):
    def interrupted(*_arguments, **_settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("sojourn.planning.bound.search.make_plan", interrupted)
    monkeypatch.setattr("sys.argv", ["sojourn", "plan", str(fleet), *BOUND, "10"])
    with pytest.raises(SystemExit) as end:
        run()
    assert end.value.code == 130
    assert "interrupted before the end" in capsys.readouterr().err


def test_a_command_that_has_said_how_ctrl_c_ended_it_says_it_alone(fleet, monkeypatch, capsys):
    def interrupted(*_arguments, **_settings):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise Exit(130) from None

    monkeypatch.setattr("sojourn.planning.bound.search.make_plan", interrupted)
    monkeypatch.setattr("sys.argv", ["sojourn", "plan", str(fleet), *BOUND, "10"])
    with pytest.raises(SystemExit) as end:
        run()
    assert end.value.code == 130
    assert "interrupted" not in capsys.readouterr().err


def test_chance_in_rare_updates_is_not_taken_for_the_law():
    from sojourn.planning.law_check import _check

    fleet = Fleet.of_rates(np.exp(np.random.default_rng(1).normal(0, 1, 1000)))
    assert not _check("exponential", fleet, analyze(fleet, Plan.uniform(fleet, 30))).matters


def test_one_client_is_refused(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nonly,1,8\n")
    with pytest.raises(InvalidInput, match="a plan needs at least two clients, got 1"):
        call("plan", path, *BOUND, 10)


def test_an_unequal_plan_comes_with_the_fleet_that_it_is_for(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nfast,3,8\nslow,2,1\n")
    call("plan", path, "--budget-steps", 1000, "-C", 5, "--unequal", "--out", tmp_path / "plan.json", *QUICK)
    shown = call("analyze", tmp_path / "plan-fleet.csv", "--plan", tmp_path / "plan.json")
    assert "throughput and staleness are as the plan promises" in shown


def test_plans_beyond_the_limits_are_marked(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nfast,9,8\nslow,3,1\n")
    words = ["plan", path, *BOUND, 1000, "-C", 4, "--most-staleness", 10, "--no-law-check"]
    assert "uniform, 12 tasks (C = n), outside the limits" in call(*words, "--no-sensitivity")
    content = json.loads(call(*words, "--json"))
    assert [row["feasible"] for row in content["comparison"]][-1] is True
    assert not all(row["feasible"] for row in content["comparison"])
    assert {row["feasible"] for row in content["sensitivity"]} == {True, False}


@pytest.mark.slow
def test_inputs_under_which_no_plan_keeps_the_limits_are_reported(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nfast,6,8\nmedium,3,2\nslow,4,1\n")
    limits = ["-C", 9, "--floor", 0.03, "--most-staleness", 9.57]
    words = ["plan", path, *BOUND, 200, *limits, "--no-law-check"]
    assert "none within the limits" in call(*words)
    rows = json.loads(call(*words, "--json"))["sensitivity"]
    none = next(row for row in rows if row["case"] == "fast clients' rates 20% more")
    assert none["best"] is none["concurrency"] is none["regret"] is None


def test_uniform_with_one_task_per_client_stands_once(fleet):
    content = json.loads(call("plan", fleet, "--budget-steps", 1000, "-C", 100, "--json", *QUICK))
    names = [row["name"] for row in content["comparison"]]
    assert names == ["uniform, 100 tasks (C = n)", "by speed, 100 tasks", "the paper's, 100 tasks", "this plan"]
