"""`sojourn plan`, as it answers without data."""

import json

import pytest
from typer.testing import CliRunner

from sojourn import Plan
from sojourn.cli.main import app
from sojourn.cli.plan import OF_THE_BOUND
from sojourn.errors import InvalidInput, UnreadableFile


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
    assert "2,628,000 updates in 1 h" in out
    assert "brings in 8.04 times as many updates" in out
    assert "bound of" not in out
    assert max(map(len, out.split("staleness: mean over updates")[0].splitlines())) <= 80


def test_a_short_time_is_said_to_bring_more_at_first(fleet):
    note = "Updates and staleness are long-run means"
    short = " ".join(call("plan", fleet, "--time", "4s").split())
    assert f"{note}: a run starts with all clients idle, so at first, until about " in short
    assert note not in call("plan", fleet, "--time", "1h")


def test_the_legend_says_what_predicted_losses_are_good_for(tmp_path):
    (tmp_path / "few.csv").write_text("name,count,rate\nfast,2,8\nslow,2,1\n")
    note = "loss: by the model of training, good for ranks and ratios only"
    assert note in " ".join(call("plan", tmp_path / "few.csv", "--time", 5, "--twin").split())
    assert note not in " ".join(call("plan", tmp_path / "few.csv", "--time", 5).split())


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


def test_the_legend_of_the_policies_covers_no_bar(fleet, tmp_path, monkeypatch):
    from sojourn.report import advice_figure

    kept = []
    monkeypatch.setattr(advice_figure, "save", lambda figure, path: kept.append(figure) or [])
    call("plan", fleet, "--time", 5, "--pictures", tmp_path / "pictures")
    (figure,) = kept
    figure.canvas.draw()
    (legend,) = figure.legends
    assert all(axis.get_legend() is None for axis in figure.axes)
    assert all(legend.get_window_extent().y1 <= axis.get_window_extent().y0 for axis in figure.axes)


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
        (
            ("--time", "1h", "--by", "policy", "--epsilon", "1"),
            "--epsilon belongs to --by bound, got it with --by policy",
        ),
        (("--time", "1h", "--correction", "5"), "correction must be a number from 0"),
        (("--time", "1h", "-C", "101"), "concurrency must be at most the 100 tasks"),
        (("--time", "1h", "--cap", "0"), "cap"),
        (("--time", "1h", "-C", "0"), "concurrency must be a whole number from 1 to .*, got 0"),
        (("--time", "1h", "--most-tasks", "0"), "most_tasks must be a whole number from 1 to .*, got 0"),
        (("--time", "1h", "--most-tasks", "5", "-C", "6"), "concurrency must not exceed most_tasks, 5, got 6"),
        (("--time", "1h", "--most-staleness", "-3"), "most_staleness must not be negative, got -3"),
        (("--time", "1h", "--most-bytes", "0", "--model-bytes", "1"), "most_bytes must be positive, got 0"),
        (("--time", "1h", "--most-bytes", "9", "--model-bytes", "-1"), "needs the bytes of a model, got -1"),
    ],
)
def test_nonsense_is_refused_in_a_sentence(fleet, words, said):
    with pytest.raises(InvalidInput, match=said):
        call("plan", fleet, *words)


def test_constants_of_the_bound_alone_are_refused_with_the_way_out(fleet, tmp_path):
    (tmp_path / "abc.toml").write_text("A = 100\nL = 1\nB = 20\n")
    with pytest.raises(InvalidInput, match="holds only constants of the bound; measure with sojourn calibrate"):
        call("plan", fleet, "--time", 5, "--constants", tmp_path / "abc.toml")


def test_a_file_without_constants_is_called_what_the_flag_calls_it(fleet):
    with pytest.raises(UnreadableFile, match=r"constants file .*fleet\.csv is not valid TOML"):
        call("plan", fleet, "--time", 5, "--constants", fleet)


def test_each_group_has_its_updates_beside_its_share(fleet):
    rows = call("plan", fleet, "--time", "1h").splitlines()
    cells = [[cell.strip() for cell in row.split("│")] for row in rows]
    assert ["slow", "10", "1", "36,000", "1.37%", "729"] in cells


def test_the_next_step_writes_the_plan_first_and_has_the_time_as_it_was_given(fleet, tmp_path):
    lines = call("plan", fleet, "--time", "2 days").splitlines()
    assert f"sojourn plan {fleet} --time '2 days' --out plan.json" in lines
    assert lines[-1].startswith("sojourn tune ")
    assert "--plan plan.json --time '2 days' " in lines[-1]
    lines = call("plan", fleet, "--time", "5min", "--out", tmp_path / "p.json").splitlines()
    assert "next:" in lines
    assert "then:" not in lines
    assert f"--plan {tmp_path / 'p.json'} --time 5min " in lines[-1]


def test_the_next_step_names_files_that_are_free(fleet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.json").write_text("{}")
    (tmp_path / "tuning").mkdir()
    lines = call("plan", fleet, "--time", "1h", "--correction", 0).splitlines()
    assert f"sojourn plan {fleet} --time 1h --correction 0 --out plan-2.json" in lines
    assert lines[-1].endswith("--plan plan-2.json --time 1h --data digits --out tuned-2.json --folder tuning-2")


def test_numbers_for_people_have_commas_and_numbers_for_programs_have_not(fleet):
    steps = [
        float(line.split(",")[2])
        for line in call("plan", fleet, "--time", "1h", "--csv").splitlines()
        if "(bound)" in line
    ]
    assert steps == pytest.approx([308_400.524], rel=1e-6)  # an optimum, which machines find to some eight digits
    assert json.loads(call("plan", fleet, "--time", "1h", "--json"))["promises"]["steps"] == pytest.approx(2_628_000)


def test_a_simulated_plan_has_the_dispatcher_that_a_comparison_names(fleet, tmp_path):
    call("plan", fleet, "--time", "1h", "--out", tmp_path / "plan.json")
    out = call("simulate", fleet, "--plan", tmp_path / "plan.json", "--steps", 2000)
    assert "dispatcher: idle;" in " ".join(out.split())


def test_a_single_client_is_spoken_of_in_the_singular(tmp_path):
    (tmp_path / "one.csv").write_text("name,count,rate\nonly,1,2\n")
    out = call("plan", tmp_path / "one.csv", "--time", "5min")
    assert out.startswith("1 task in flight, 600 updates in 5 min")
    assert "times as many" not in out
    assert "1 tasks" not in out


def test_help_keeps_the_flags_of_the_bound_and_the_limits_apart_and_cuts_nothing_off():
    out = call("plan", "--help")
    assert "…" not in out
    options, limits, bound = (out.index(f"─ {panel} ─") for panel in ("Options", "Limits", "Only for --by bound"))
    for flag in OF_THE_BOUND:
        assert out.rindex(f"--{flag.replace('_', '-')} ") > bound
    assert options < limits < out.index("--most-tasks  ") < bound
