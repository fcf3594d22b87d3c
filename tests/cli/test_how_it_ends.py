"""How the command line ends: streams that are closed or full, places that cannot be written, defects."""

import os
import subprocess
import sys

import pytest

from sojourn.cli.main import run

HERE = [sys.executable, "-m", "sojourn"]


@pytest.fixture
def fleet(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nfast,5,1.2\nslow,5,1\n")
    return path


@pytest.fixture
def call(monkeypatch, capsys):
    """Run the command line in this process: (exit code, stderr)."""

    def go(*words):
        monkeypatch.setattr("sys.argv", ["sojourn", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            run()
        return end.value.code, capsys.readouterr().err

    return go


def in_shell(command, *words):
    """A shell command in which `sojourn` is the command line."""
    text = command.replace("sojourn", '"$0" -m sojourn', 1).replace("FLEET", '"$1"')
    return subprocess.run(
        ["bash", "-c", text, sys.executable, *map(str, words)], capture_output=True, text=True, timeout=240, check=False
    )


@pytest.mark.parametrize("more", ["", "--json"])
@pytest.mark.slow
def test_a_closed_output_is_none_and_no_error(fleet, more):
    ended = in_shell(f"sojourn analyze FLEET {more} >&-", fleet)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.slow
def test_a_reader_that_has_enough_ends_it_without_a_word(fleet):
    ended = in_shell("sojourn analyze FLEET --json | head -1", fleet)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "{\n", "")


@pytest.mark.parametrize("more", ["", "--json"])
@pytest.mark.slow
def test_a_full_output_is_one_sentence(fleet, more):
    ended = in_shell(f"sojourn analyze FLEET {more} > /dev/full", fleet)
    assert ended.returncode == 2
    assert ended.stderr == "error: the output cannot be read or written: No space left on device; check the place\n"


@pytest.mark.slow
def test_closed_streams_do_not_hide_that_it_failed(fleet):
    assert in_shell("sojourn analyze no-such-fleet.csv 2>&- >&-").returncode == 2


@pytest.mark.parametrize("place", ["/dev/full", "FLEET/under-a-file.json", "no/such/folder/out.json", "dangling"])
def test_a_place_that_cannot_be_written_is_one_sentence(call, fleet, tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "at-all")
    code, err = call("analyze", fleet, "--out", place.replace("FLEET", str(fleet)))
    assert code == 2
    assert err.startswith("error: cannot write")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ZeroDivisionError("float division by zero"), "ZeroDivisionError: float division by zero"),
        (RuntimeError("a\n\x1b[31mb" + "c" * 10_000), r"RuntimeError: a\n\x1b[31mbccc"),
    ],
)
def test_what_nobody_thought_of_is_reported_in_one_sentence_as_a_defect(call, fleet, monkeypatch, error, said):
    def fail(*_, **__):
        raise error

    fail.__code__ = fail.__code__.replace(co_filename=sys.modules["sojourn.cli.main"].__file__)  # in our own code
    monkeypatch.setattr("sojourn.timing.exact.analysis.analyze", fail)
    code, err = call("analyze", fleet)
    assert code == 70
    assert err.startswith(f"error: this is a defect of sojourn: {said}")
    assert err.endswith("; run again with --debug for the traceback\n")
    assert err[:-1].isprintable()
    assert len(err) < 600
    with pytest.raises(type(error)):
        call("--debug", "analyze", fleet)


def test_an_error_in_code_of_the_users_own_is_said_to_be_there(call, fleet, tmp_path, monkeypatch):
    (tmp_path / "their_data.py").write_text("def make():\n    return [][3]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    code, err = call("train", fleet, "--data", "their_data:make", "--out", tmp_path / "run")
    assert code == 1
    assert err == (
        f"error: IndexError: list index out of range, in {tmp_path / 'their_data.py'}, line 2; "
        "run again with --debug for the traceback\n"
    )


def test_a_disk_that_fails_elsewhere_is_one_sentence(call, fleet, monkeypatch):
    def fail(*_, **__):
        raise PermissionError(13, "Permission denied", "/some/where")

    monkeypatch.setattr("sojourn.timing.exact.analysis.analyze", fail)
    assert call("analyze", fleet) == (
        2,
        "error: /some/where cannot be read or written: Permission denied; check the place\n",
    )


@pytest.mark.parametrize(
    "words", [["--seed", "1e30"], ["--warmup", str(2**64)], ["--steps", "9" * 400], ["-R", "-1e40"], ["-C", "1e19"]]
)
def test_a_number_beyond_64_bits_is_one_sentence(call, fleet, words):
    code, err = call("simulate", fleet, *words)
    assert code == 2
    assert "must be a whole number below 2^63, got" in err
    assert err.count("\n") == 1


LARGE = """
import resource, sys
from sojourn.cli.main import run
sys.argv = ["sojourn", "analyze", *sys.argv[1:]]
try:
    run()
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


@pytest.mark.slow
def test_json_of_many_groups_takes_little_more_memory_than_their_table(tmp_path):
    """100,000 groups: 60 MB of JSON took 740 MB beyond what the process begins with, the table below it took 600."""
    lines = [f"client-{number},1,{1 + number % 977 / 500}\n" for number in range(100_000)]
    peaks = []
    for name, many in (("few", 10), ("many", len(lines))):
        (tmp_path / f"{name}.csv").write_text("name,count,rate\n" + "".join(lines[:many]))
        words = [str(tmp_path / f"{name}.csv"), "-C", "1000", "--out", str(tmp_path / f"{name}.json")]
        # started by a small shell, since the peak of a process begins with the memory of the one that starts it
        command = ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-c", LARGE, *words]
        ended = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks.append(int(ended.stderr.split()[-1]) * (1 if sys.platform == "darwin" else 1024))
    assert os.path.getsize(tmp_path / "many.json") > 50e6
    assert peaks[1] - peaks[0] < 200e6
