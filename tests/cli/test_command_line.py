"""The command line as a user meets it: tables, JSON, files, and one clear sentence for each mistake."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from sojourn import Fleet, Plan, Trace, __version__, analyze, measure
from sojourn.__main__ import main
from sojourn.cli import show
from sojourn.cli.main import run


@pytest.fixture
def call(monkeypatch, capsys):
    """Run the command line in this process: (exit code, stdout, stderr)."""

    def go(*words):
        monkeypatch.setattr(sys, "argv", ["sojourn", *map(str, words)])
        code = 0
        try:
            run()
        except SystemExit as end:
            code = 0 if end.code is None else end.code
        out, err = capsys.readouterr()
        return code, out, err

    return go


@pytest.fixture
def two(tmp_path):
    path = tmp_path / "two.csv"
    path.write_text("name,count,rate\nfast,5,1.2\nslow,5,1\n")
    return path


def test_the_version_is_printed(call):
    assert call("--version") == (0, f"sojourn {__version__}\n", "")


@pytest.mark.parametrize("verb", ["analyze", "simulate"])
def test_help_shows_examples(call, verb):
    code, out, _ = call(verb, "--help")
    assert code == 0
    assert f"sojourn {verb} fleet.csv" in out


def test_analyze_prints_a_table_with_the_exact_values(call, two):
    code, out, err = call("analyze", two, "-C", "1000", "--limits")
    assert (code, err) == (0, "")
    assert "48.7922" in out
    assert "1,949.21" in out
    assert "45.8333" in out  # the paper's printed form


def test_analyze_json_carries_the_analysis_at_full_precision(call, two, tmp_path):
    code, out, _ = call("analyze", two, "-C", "1e3", "--json", "--limits", "--out", tmp_path / "a.json")
    fleet = Fleet.load(two)
    exact = analyze(fleet, Plan.uniform(fleet, 1000))
    content = json.loads(out)
    assert code == 0
    assert json.loads((tmp_path / "a.json").read_text()) == content
    assert content["throughput"] == exact.throughput
    for g, group in enumerate(content["groups"]):
        assert group["queue"] == exact.queue[g]
        for reading in ("conditional", "indicator"):
            for count in ("between", "inclusive"):
                assert group["staleness"][reading][count] == exact.staleness(reading, count)[g]
    assert content["limits"]["staleness_exact"] == exact.staleness().tolist()


@pytest.mark.parametrize(
    ("words", "sampling"),
    [
        (["--sampling", "uniform"], [0.1, 0.1]),
        (["--sampling", "speed"], [1.2 / 11, 1 / 11]),
        (["--sampling", "slow=0.15,fast=0.05"], [0.05, 0.15]),
        (["--sampling", "slow=3,fast=1"], [0.05, 0.15]),
        (["--sampling", "speed^-1"], [1 / 11, 1.2 / 11]),
        (["--sampling", "FILE"], [0.02, 0.18]),
        (["--plan", "PLAN"], [0.04, 0.16]),
    ],
)
def test_sampling_can_be_said_in_every_way(call, two, tmp_path, words, sampling):
    (tmp_path / "p.csv").write_text("name,probability\nslow,0.18\nfast,0.02\n")
    Plan.of(Fleet.load(two), {"fast": 0.04, "slow": 0.16}, 7).save(tmp_path / "plan.json")
    paths = {"FILE": tmp_path / "p.csv", "PLAN": tmp_path / "plan.json"}
    code, out, _ = call("analyze", two, "--json", *[paths.get(word, word) for word in words])
    content = json.loads(out)
    assert code == 0
    assert [group["sampling"] for group in content["groups"]] == pytest.approx(sampling, rel=1e-12)
    assert content["concurrency"] == (7 if "PLAN" in words else 10)


def test_simulate_json_is_the_summary_of_the_library(call, two, tmp_path):
    code, out, _ = call("simulate", two, "-C", 20, "--steps", "2e4", "-R", 12, "--seed", 3, "--json")
    fleet = Fleet.load(two)
    summary = measure(fleet, Plan.uniform(fleet, 20), 20_000, seed=3, replications=12)
    content = json.loads(out)
    assert code == 0
    assert content["error_from"] == "replications"
    assert content["throughput"]["value"] == summary.throughput.value
    for g, group in enumerate(content["groups"]):
        assert group["staleness"]["value"] == summary.staleness.value[g]
        assert group["staleness"]["standard_error"] == summary.staleness.error[g]
        assert abs(group["staleness"]["value"] - group["staleness"]["exact"]) < 5 * summary.staleness.error[g]


def test_simulate_writes_trace_and_summary_into_a_folder(call, two, tmp_path):
    code, out, err = call("simulate", two, "--steps", 1000, "--start", "even", "--out", tmp_path / "run")
    trace = Trace.load(tmp_path / "run" / "trace.parquet")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert code == 0
    assert "staleness" in out
    assert "wrote" in err
    assert trace.metadata["steps"] == summary["steps"] == 1000
    assert trace.staleness.mean() == pytest.approx(summary["mean_staleness"], rel=1e-12)


def test_a_second_run_over_the_same_folder_replaces_the_first_only_when_asked(call, two, tmp_path):
    words = ["simulate", two, "--steps", 500, "--out", tmp_path / "run", "--seed"]
    assert call(*words, 1)[0] == 0
    code, _, err = call(*words, 2)
    assert code == 2
    assert err.endswith("trace.parquet exists already; name another file, or give --overwrite to replace it\n")
    assert Trace.load(tmp_path / "run" / "trace.parquet").metadata["seed"] == 1
    assert call(*words, 2, "--overwrite")[0] == 0
    assert Trace.load(tmp_path / "run" / "trace.parquet").metadata["seed"] == 2
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["summary.json", "trace.parquet"]


def test_simulate_says_when_its_batches_are_correlated(call, tmp_path):
    fleet = tmp_path / "near.csv"
    fleet.write_text("name,count,rate\na,1,1\nb,1,1\n")
    _, out, _ = call("simulate", fleet, "-C", 2000, "--steps", 20_000, "--start", "routed")
    assert "batches are correlated" in out
    assert "--replications 20" in out


def test_a_run_shorter_than_its_memory_says_so_and_how_long_it_should_be(call, two):
    words = ["simulate", two, "-C", 1000, "--start", "even", "--steps"]
    _, out, _ = call(*words, 2000)
    said = " ".join(out.split())
    assert "the run is shorter than its memory: from the start 'even' queues settle in about 11,000 steps" in said
    assert "a task is on average up to 2,000 steps old" in said
    assert "use --warmup 13000 --steps 16000 or more" in said
    _, out, _ = call(*words, 16000, "--warmup", 13000)
    assert "shorter than its memory" not in out
    _, out, _ = call(*words, 2000, "--json")
    assert json.loads(out)["memory"].keys() == {"settling", "staleness", "needed", "short"}
    assert json.loads(out)["memory"]["short"] is True
    assert json.loads(call(*words, 100_000, "--json")[1])["memory"]["short"] is False


def test_what_was_not_seen_has_no_number_and_what_was_seen_once_has_no_error(call, two):
    code, out, _ = call("simulate", two, "-C", 1000, "--steps", 1)
    assert code == 0
    assert "nan" not in out
    assert "inf" not in out
    assert "± is one standard error" in out
    assert out.count("±") == 1


def test_a_run_in_which_no_time_passes_is_no_interruption(call, tmp_path):
    (tmp_path / "fleet.csv").write_text("name,count,rate,law\nall,1000,1,deterministic\n")
    words = ["simulate", tmp_path / "fleet.csv", "--dispatcher", "pure", "--warmup", 100, "--steps"]
    code, out, err = call(*words, 500)
    assert (code, err.replace("compiling the simulator, once on this machine; this takes some seconds\n", "")) == (
        0,
        "",
    )
    assert "no time passed during the counted steps, so there is no throughput; use more --steps" in out
    code, out, _ = call(*words, 20_000, "--json")
    assert code == 0
    assert json.loads(out)["throughput"]["value"] == 1000


def test_a_long_fleet_is_shown_by_its_ends(call, tmp_path):
    Fleet.of_rates(np.linspace(1, 2, 100)).save(tmp_path / "many.csv")
    code, out, _ = call("analyze", tmp_path / "many.csv")
    assert code == 0
    assert "... 76 more" in out
    assert "client-99" in out


BAD = {
    "negative rate": ("name,count,rate\na,1,-2\n", [], r"rate of group 'a' must be positive and finite, got -2"),
    "rate NaN": ("name,count,rate\na,1,nan\n", [], r"rate of group 'a' must be positive and finite, got nan"),
    "typo": ("name,count,ratee\na,1,2\n", [], r"unknown column 'ratee'; did you mean 'rate'\?"),
    "not a number": ("name,count,rate\na,1,fast\n", [], r"line 2: rate must be a number, got 'fast'"),
    "empty file": ("", [], r"a fleet needs at least one group"),
    "header only": ("name,count,rate\n", [], r"a fleet needs at least one group"),
    "no tasks": (None, ["-C", "0"], r"concurrency must be a whole number from 1 to 1,000,000,000, got 0"),
    "half a task": (None, ["-C", "1.5"], r"concurrency must be a whole number, got '1.5'"),
    "power": (None, ["--sampling", "speed^x"], r"sampling speed\^E must have a number E, got 'speed\^x'"),
    "group unknown": (None, ["--sampling", "fst=0.1,slow=0.1"], r"no group 'fst'; its groups are fast, slow"),
    "group missing": (None, ["--sampling", "fast=0.2"], r"'slow' is missing"),
    "negative p": (None, ["--sampling", "fast=-0.1,slow=0.3"], r"must be a positive probability, got -0.1"),
    "p not a number": (None, ["--sampling", "fast=x,slow=0.1"], r"sampling of 'fast' must be a number, got 'x'"),
    "no such sampling": (None, ["--sampling", "unifrom"], r"there is no file 'unifrom'"),
    "no such plan": (None, ["--plan", "nowhere.json"], r"plan file nowhere.json does not exist"),
    "both": (None, ["--plan", "x.json", "--sampling", "speed"], r"plan and sampling exclude each other"),
}


@pytest.mark.parametrize("verb", ["analyze", "simulate"])
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence_and_exit_code_two(call, two, tmp_path, verb, case):
    text, words, message = BAD[case]
    path = two
    if text is not None:
        path = tmp_path / "bad.csv"
        path.write_text(text)
    code, out, err = call(verb, path, *words)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert __import__("re").search(message, err), err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--steps", "0"], "steps must be a whole number of at least 1, got 0"),
        (["--steps", "many"], "steps must be a whole number, got 'many'"),
        (["--seed", "-1"], "seed must be a whole number of at least 0, got -1"),
        (["--start", "odd"], "start must be one of even, routed, stationary, one-each, got 'odd'"),
        (["--start", "one-each", "-C", "11"], "start one-each needs concurrency <= clients, got 11 > 10"),
        (["-R", "0"], "replications must be a whole number of at least 1, got 0"),
        (["--warmup", "-1"], "warmup must be a whole number of at least 0, got -1"),
    ],
)
def test_bad_sizes_are_refused_and_nothing_is_written(call, two, tmp_path, words, message):
    code, out, err = call("simulate", two, "--out", tmp_path / "t.parquet", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert not list(tmp_path.glob("t.parquet*"))


def test_laws_links_and_a_busy_server_are_set_on_the_command_line(call, two):
    words = ["--law", "deterministic", "--law", "slow=lognormal(sigma=0.5)", "--uplink", "5:gamma(shape=2)"]
    words += ["--downlink", "slow=2", "--server-rate", "50", "--steps", "2000", "--json"]
    code, out, _ = call("simulate", two, *words)
    content = json.loads(out)
    assert code == 0
    assert content["engine"] == "events"
    assert content["start"] == "even"
    # a fast task takes 1/1.2 of service, and at least its links and its time at the server on average
    assert content["groups"][0]["sojourn"]["value"] > 1 / 1.2 + 0.2
    code, out, _ = call("analyze", two, "--uplink", "5", "--downlink", "slow=2", "--server-rate", "50", "--json")
    content = json.loads(out)
    assert content["server_utilisation"] == pytest.approx(content["throughput"] / 50)
    assert content["groups"][0]["on_links"] == pytest.approx(content["throughput"] * 0.1 * 0.2)


@pytest.mark.parametrize("name", ["shuffled", "rounds(wait=5, interaction=3)"])
def test_a_dispatcher_is_chosen_by_its_name_and_the_theory_is_said_to_be_another(call, two, name):
    code, out, _ = call("simulate", two, "--dispatcher", name, "--local-steps", 3, "--steps", 2000)
    assert code == 0
    assert "the theory assumes routed tasks" in out
    assert "theory is" in out


@pytest.mark.parametrize("words", [("--dispatcher", "pure"), ("--dispatcher", "idle"), ("--cap", 1)])
def test_where_nobody_waits_the_theory_is_said_to_be_exact_for_any_law(call, two, words):
    law = ("--law", "lognormal(sigma=1)")
    code, out, _ = call("simulate", two, *words, "--local-steps", 3, *law, "-C", 10, "--steps", 2000)
    assert code == 0
    assert "nobody waits: the theory is exact for any service law" in out
    assert "exponential service" not in out


def test_a_cap_on_the_command_line(call, two):
    code, out, _ = call("analyze", two, "-C", 6, "--cap", 1)
    assert code == 0
    assert "nobody waits: the values depend on mean durations only and are exact for any service law" in " ".join(
        out.split()
    )
    content = json.loads(call("analyze", two, "-C", 6, "--cap", "fast=2", "--json")[1])
    assert [group["cap"] for group in content["groups"]] == [2, None]
    assert sum(group["count"] * group["share"] for group in content["groups"]) == pytest.approx(1)
    code, _, said = call("simulate", two, "-C", 11, "--cap", 1)
    assert code == 2
    assert "concurrency must be at most the 10 tasks that the clients may hold under the cap, got 11" in said
    assert call("plan", two, "--by", "bound", "--time", 100, "--cap", 1)[0] == 2


def test_periodic_calls_and_availability_on_the_command_line(call, two, tmp_path):
    periodic = "periodic(contacts=2, waiting=4, interaction=3)"
    code, out, _ = call("simulate", two, "--dispatcher", periodic, "--local-steps", 20, "--steps", 2000, "--json")
    assert code == 0
    assert json.loads(out)["throughput"]["value"] == pytest.approx(2 / 7)
    (tmp_path / "away.toml").write_text('[[availability]]\nname = "churn"\non = 5\noff = 5\nleave = "lose"\n')
    for text in (tmp_path / "away.toml", "churn(on=5, off=5, leave=lose)"):
        code, out, _ = call("simulate", two, "--availability", text, "--steps", 2000)
        assert code == 0
        assert "tasks were lost or dropped, which the theory does not model" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--law", "lognormal"], "law lognormal needs its parameter sigma"),
        (["--uplink", "fast"], "uplink must be a rate, optionally with :law, got 'fast'"),
        (["--uplink", "-3"], "uplink_rate of group 'fast' must be positive"),
        (["--server-rate", "-1"], "server_rate must be positive"),
        (["--dispatcher", "random"], "dispatcher must be one of"),
        (["--availability", "sometimes"], "availability must be one of"),
        (
            ["--availability", "always(loss=0.9999999999999999)"],
            "the run makes no progress: no update was applied in 20,000,",
        ),
        (["--dispatcher", "rounds(" + "," * 2000 + ")"], "dispatcher must have at most 1,000 characters, got"),
        (["--law", "gamma(" + " " * 2000 + ")"], "law must have at most 1,000 characters, got"),
        (["--steps", "1e18"], "steps must be at most 1,000,000,000,000,000, got 1,000,000,000,000,000,000"),
        (["--local-steps", "1e10"], "local_steps must be at most 100,000, got 10000000000"),
        (["--availability", "none.toml"], "availability file none.toml does not exist"),
        (["--engine", "fast"], "engine must be one of auto, jump chain, events, got 'fast'"),
        (["--law", "deterministic", "--start", "stationary"], "start stationary needs the paper's network"),
    ],
)
def test_a_scenario_written_wrongly_is_one_sentence(call, two, words, message):
    code, out, err = call("simulate", two, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_fit_writes_a_fleet_from_a_trace(call, two, tmp_path):
    call("simulate", two, "-C", 30, "--steps", 20_000, "--out", tmp_path / "t.parquet")
    words = ["fit", tmp_path / "t.parquet", "--fleet", two, "--out", tmp_path / "fitted.csv"]
    code, out, err = call(*words)
    assert code == 0
    assert "exponential" in out
    assert "wrote" in err
    assert Fleet.load(tmp_path / "fitted.csv").rate == pytest.approx([1.2, 1.0], rel=0.05)
    assert "exists already" in call(*words)[2]
    code, out, _ = call(*words, "--law", "exponential", "--overwrite", "--json")
    content = json.loads(out)
    assert content["by"] == "group"
    assert content["groups"][0]["rate_low"] < content["groups"][0]["rate"] < content["groups"][0]["rate_high"]
    assert call("fit", two, "--out", tmp_path / "x.csv")[0] == 2
    assert call("fit", tmp_path / "t.parquet", "--out", tmp_path / "x.txt")[2].startswith("error: --out must end in")


def test_a_missing_fleet_is_reported(call, tmp_path):
    code, _, err = call("analyze", tmp_path / "none.csv")
    assert code == 2
    assert "does not exist; check the path" in err


def test_debug_shows_the_traceback(call, tmp_path):
    with pytest.raises(OSError, match="does not exist"):
        call("--debug", "analyze", tmp_path / "none.csv")


def test_the_progress_bar_appears_on_a_terminal_when_the_work_is_slow(monkeypatch, capsys):
    monkeypatch.setattr(show, "PATIENCE", 0.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with show.progress("working") as report:
        report(1, 2)
        report(2, 2)
    assert "working" in capsys.readouterr().err


def test_ctrl_c_before_a_command_has_begun_shows_no_traceback(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("sojourn.cli.main.run", interrupted)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130


# the command line; it leaves a mark when it is reported that more than a million steps are done
MARKED = """
import sys
from contextlib import contextmanager
from pathlib import Path
from sojourn.cli import show
from sojourn.cli.main import run

progress = show.progress
mark = Path(sys.argv.pop(1))

@contextmanager
def marked(label):
    with progress(label) as report:
        def told(done, total):
            report(done, total)
            if done > 1_000_000:
                mark.touch()
        yield told

show.progress = marked
run()
"""


def _interrupted(words, tmp_path):
    """Run the command line in a process of its own, press Ctrl-C when it has done more than a million steps."""
    warm = ["simulate", words[1], "-C", 5, "--steps", 100, "--out", f"{words[-1]}-warm"]
    subprocess.run([sys.executable, "-m", "sojourn", *map(str, warm)], check=True, capture_output=True)
    started = subprocess.Popen(
        [sys.executable, "-c", MARKED, str(tmp_path / "mark"), *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "150"},
    )
    while not (tmp_path / "mark").exists():
        assert started.poll() is None, started.communicate()
        time.sleep(0.05)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=60)
    return started.returncode, out, err


@pytest.mark.slow
def test_ctrl_c_leaves_the_trace_so_far_on_disk_and_says_so(two, tmp_path):
    path = tmp_path / "long.parquet"
    code, _, err = _interrupted(["simulate", two, "-C", 50, "--steps", "1e9", "--out", path], tmp_path)
    trace = Trace.load(path)
    assert code == 130
    assert f"the trace so far is in {path}" in err
    assert "Traceback" not in err
    assert trace.metadata["complete"] is False
    assert trace.metadata["steps"] == int(trace.applied.sum()) > 0
    assert not Path(f"{path}.partial").exists()


@pytest.mark.slow
def test_ctrl_c_leaves_the_summary_so_far_on_disk_and_says_so(two, tmp_path):
    path = tmp_path / "long.json"
    code, out, err = _interrupted(["simulate", two, "-C", 50, "--steps", "1e9", "--out", path], tmp_path)
    content = json.loads(path.read_text())
    assert code == 130
    assert "interrupted: the numbers come from the" in err
    assert "staleness" in out
    assert content["complete"] is False
    assert 0 < content["steps"] < 10**9


@pytest.mark.parametrize("verb", ["plan", "analyze", "fit"])
def test_no_verb_writes_over_a_file_unless_asked(call, two, tmp_path, verb):
    kept = tmp_path / ("kept.csv" if verb == "fit" else "kept.json")
    kept.write_text("mine")
    call("simulate", two, "--steps", 500, "--out", tmp_path / "t.parquet")
    words = {
        "plan": ["plan", two, "--budget-time", 9],
        "analyze": ["analyze", two],
        "fit": ["fit", tmp_path / "t.parquet"],
    }
    code, _, err = call(*words[verb], "--out", kept)
    assert code == 2
    assert "exists already; name another file, or give --overwrite to replace it" in err
    assert kept.read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["analyze", "nope/"], "nope does not exist; name a fleet file, a trace or the folder of a run"),
        (["plan", "nope", "--time", "1h"], "fleet file nope does not exist; check the path"),
        (["replay", "nope/"], "nope does not exist; name the folder of a live run, or its trace.parquet"),
    ],
)
def test_a_path_that_is_not_there_is_called_that(words, why, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["sojourn", *words])
    with pytest.raises(SystemExit):
        run()
    assert why in " ".join(capsys.readouterr().err.split())
