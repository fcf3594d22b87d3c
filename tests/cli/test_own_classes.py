"""Laws, dispatchers and objectives of one's own on the command line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sojourn.cli.main import app
from sojourn.errors import InvalidInput

EXAMPLES = Path(__file__).parents[2] / "examples" / "extending"


@pytest.fixture
def call(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def invoke(*words):
        result = CliRunner().invoke(app, [str(word) for word in words])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.stdout

    return invoke


@pytest.fixture
def fleet(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nfast,9,8\nslow,3,1\n")
    return path


def test_simulate_takes_a_law_and_a_dispatcher_of_your_own(call, fleet):
    out = call(
        *("simulate", fleet, "--steps", 5000, "--start", "even", "-C", 12, "--json"),
        *("--law", "own_law:Lomax(alpha=3)", "--uplink", "5:own_law:Lomax(alpha=4)"),
        *("--dispatcher", "own_dispatcher:TwoChoices"),
    )
    said = json.loads(out[out.index("{") :])  # before it: that the simulator is being compiled, the first time
    assert said["dispatcher"] == "own_dispatcher:TwoChoices"
    assert said["engine"] == "events"


def test_plan_takes_an_objective_of_your_own(call, fleet):
    quick = ["--no-sensitivity", "--no-law-check", "-C", 12]
    said = call("plan", fleet, "--objective", "own_objective:EffectiveUpdate(stale=0.001)", *quick)
    assert "minimised: time of an effective update" in said
    assert "Your own objective was minimised" in said
    with pytest.raises(InvalidInput, match="is your own, which takes no budget"):
        call(
            "plan", fleet, "--objective", "own_objective:EffectiveUpdate", "--by", "bound", "--budget-time", 10, *quick
        )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--law", "own_law:Lomax"], "law own_law:Lomax needs its parameter alpha"),
        (["--law", "own_law:Lomax(alpha=1)"], "alpha must be finite and > 2, got 1"),
        (["--law", "own_law:Nobody(alpha=1)"], "module 'own_law' has no function 'Nobody'"),
        (["--law", "own_law:Fleet(alpha=1)"], "a law must be a class derived from sojourn.laws.kind.LawKind"),
        (["--law", "nowhere:Lomax(alpha=1)"], "module 'nowhere' cannot be imported"),
        (["--dispatcher", "own_dispatcher:TwoChoices(depth=3)"], "depth"),
        (["--dispatcher", "own_law:Lomax(alpha=3)"], "a dispatcher must be a class derived from"),
    ],
)
def test_what_is_wrong_with_ones_own_is_one_sentence(call, fleet, words, sentence):
    with pytest.raises(InvalidInput, match=sentence.replace("(", r"\(")):
        call("simulate", fleet, "--steps", 100, "--start", "even", *words)
