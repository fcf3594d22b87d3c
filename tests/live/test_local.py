"""The processes of `sojourn live local`: one that ends before the run has is told of, and may be missed."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from sojourn.cli.live_run import _tell
from sojourn.errors import SojournError
from sojourn.live.local import _Looking

ENDS, STAYS = "print('it began'); print('no such data', flush=True); raise SystemExit(3)", "input()"


@pytest.fixture
def looking(tmp_path):
    """A function that starts processes with these programs, waits for those that end, and returns who looks."""
    started = []

    def start(waiting, *programs):
        for number, program in enumerate(programs):
            with (tmp_path / f"clients-{number}.log").open("wb") as log:
                started.append(subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=log))
        for one, program in zip(started, programs, strict=True):
            if program == ENDS:
                one.wait()
        said = []
        run = SimpleNamespace(
            folder=tmp_path, loop=SimpleNamespace(waiting=waiting), note=lambda *given: said.append(given)
        )
        return _Looking(run, started), said

    yield start
    for one in started:
        one.communicate()


FACTS = {"process": 1, "status": 3, "said": "no such data"}


def test_a_process_that_ends_while_the_run_goes_on_is_told_of_once(looking, capsys):
    looks, said = looking(False, STAYS, ENDS)
    for _ in range(2):
        looks.look()
    assert said == [("process ended", FACTS)]
    _tell(*said[0])
    assert capsys.readouterr().err == "! process 1 of the clients has ended: no such data\n"


def test_a_process_that_ends_before_the_start_ends_the_run(looking):
    looks, said = looking(True, STAYS, ENDS)
    with pytest.raises(SojournError, match="process 1 of the clients has ended before the run began"):
        looks.look()
    assert said == [("process ended", FACTS)]


def test_a_run_without_any_process_ends(looking):
    looks, _ = looking(False, ENDS, ENDS)
    with pytest.raises(SojournError, match="the processes of the clients have ended: no such data"):
        looks.look()
