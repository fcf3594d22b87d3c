"""The Tab key in a shell."""

import os
import subprocess
import sys

import pytest

from sojourn.cli.main import run

PROGRAM = "import sys; sys.argv = ['sojourn']; from sojourn.cli.main import run; run()"


def completed(line):
    """What the shell is offered for a line that ends where the Tab key is pressed."""
    asked = {"_SOJOURN_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    words = [sys.executable, "-c", PROGRAM]
    return subprocess.run(words, env={**os.environ, **asked}, capture_output=True, text=True).stdout.split()


def test_a_verb_is_completed():
    assert completed("sojourn pl") == ["plan"]


def test_the_flags_of_a_verb_are_offered_with_the_formats_that_all_have():
    assert {"--sampling", "--cap", "--json", "--csv", "--latex"} <= set(completed("sojourn analyze --"))


def test_the_script_for_a_shell_can_be_installed_and_shown(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["sojourn", "--help"])
    with pytest.raises(SystemExit):
        run()
    out = capsys.readouterr().out
    assert "--install-completion" in out
    assert "--show-completion" in out
