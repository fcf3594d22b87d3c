"""`sojourn calibrate` as a user meets it, and its file in `sojourn plan`."""

import json

import pytest
from typer.testing import CliRunner

from sojourn import InvalidInput, UnwritableFile
from sojourn.calibration import Calibration
from sojourn.cli.calibrate import _range
from sojourn.cli.main import app
from sojourn.constants import Constants
from sojourn.measured import Measured

QUICK = ["--gradients", 80, "--points", 2, "--directions", 2, "--steps", 40, "--model", "logistic"]


def invoke(verb, *words):
    return CliRunner().invoke(app, [verb, *(str(word) for word in words)])


def call(verb, *words):
    result = invoke(verb, *words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def fleet(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nfast,6,4\nslow,4,1\n")
    return path


def test_help_shows_examples():
    assert "sojourn calibrate fleet.csv --data digits" in " ".join(call("calibrate", "--help").stdout.split())


def test_an_interval_whose_ends_look_alike_is_called_exact():
    assert _range(Measured(2.3451, 2.3449, 2.3452), 4) == "exact to 4 digits"
    assert _range(Measured(2.3451, 2.3449, 2.4452), 4) == "2.345 to 2.445"
    assert _range(Measured(0.0, 0.0, 0.0), 4) == "0 to 0"


@pytest.mark.slow
def test_measured_constants_are_shown_written_and_planned_with(fleet, tmp_path):
    out = tmp_path / "constants.toml"
    words = [fleet, "--data", "digits", "--partition", "classes(k=2)", "--batch-size", 8, *QUICK, "--out", out]
    said = call("calibrate", *words, "--pictures", tmp_path / "drawn")
    drawn = {one.name for one in (tmp_path / "drawn").iterdir()}
    assert drawn == {f"calibration-{name}.{kind}" for name in ("constants", "spectrum") for kind in ("svg", "png")}
    found = Calibration.load(out)
    for word in ("95% interval", "sigma2", "G2", f"{found.L.value:.4g}", "at points of a short training"):
        assert word in said.output
    land = found.landscape()
    for word in (
        "What the twin plans with",
        "noise_floor",
        f"{land.heterogeneity:.3g}",
        f"{land.curvature[0]:.3g}",
        "trace",
    ):
        assert word in said.output
    assert f"such as 1h: sojourn plan {fleet} --time TIME --constants {out}" in said.output
    assert f"wrote {out}, which contains no data" in said.output
    assert found.run["partition"] == "classes(k=2)"
    assert found.run["batch_size"] == 8
    quick = ["--no-sensitivity", "--no-law-check"]
    planned = json.loads(
        call("plan", fleet, "--by", "bound", "--budget-time", 100, "--constants", out, *quick, "--json").stdout
    )
    assert planned["constants"] == Constants.load(out).facts()
    assert planned["constants"]["G2"] == found.G2.value


def test_json_carries_every_number(fleet, tmp_path):
    told = json.loads(call("calibrate", fleet, *QUICK, "--out", tmp_path / "c.toml", "--json").stdout)
    found = Calibration.load(tmp_path / "c.toml")
    assert told["command"] == "calibrate"
    assert told["A"] == found.A._asdict()
    assert told["points"][1]["noise"]["high"] == [one.high for one in found.points[1].noise]
    assert told["points"][1]["step"] == 40
    assert told["landscape"] == json.loads(json.dumps(found.landscape().content()))
    assert told["between"] == found.between._asdict()


def test_a_run_file_describes_what_is_measured_and_flags_win(fleet, tmp_path):
    (tmp_path / "run.toml").write_text(f'fleet = "{fleet}"\nbatch_size = 16\nseed = 4\nmodel = "mlp"\nsteps = 999\n')
    call("calibrate", "--config", tmp_path / "run.toml", *QUICK, "--out", tmp_path / "c.toml")
    run = Calibration.load(tmp_path / "c.toml").run
    assert (run["batch_size"], run["seed"], run["model"], run["steps"]) == (16, 4, "logistic", 40)


def test_clients_that_were_not_asked_and_examples_left_out_are_reported(tmp_path):
    fleet = tmp_path / "fleet.csv"
    fleet.write_text("name,count,rate\nall,40,1\n")
    said = call("calibrate", fleet, *QUICK, "--examples", 400, "--out", tmp_path / "c.toml").output
    asked = "10 of 40 clients computed gradients: sigma2 and G2 are extrapolated"
    assert asked in said
    assert "--gradients 320 would include all clients" in said
    assert "losses and curvatures were computed on a random sample of the examples, not on all" in said
    words = [
        "plan",
        fleet,
        "--by",
        "bound",
        "--budget-time",
        100,
        "--constants",
        tmp_path / "c.toml",
        "--no-sensitivity",
        "--no-law-check",
    ]
    assert f"about the constants: {asked}" in " ".join(call(*words).stdout.split())
    assert asked in json.loads(call(*words, "--json").stdout)["constants_notes"][0]


def test_a_batch_that_is_all_of_a_clients_data_is_reported_to_have_no_noise(fleet, tmp_path):
    words = ["calibrate", fleet, *QUICK, "--batch-size", 500]
    said = " ".join(call(*words, "--out", tmp_path / "c.toml").output.split())
    assert said.count("no noise: one batch holds all examples of a client") == 3  # sigma2, noise, noise_floor
    assert "sigma2 is 0: one batch holds all examples of a client, so its gradient has no noise" in said
    told = json.loads(call(*words, "--out", tmp_path / "d.toml", "--json").stdout)
    assert told["sigma2"] == {"value": 0, "low": 0, "high": 0}
    assert told["still"] == told["clients"] == 10
    assert (told["landscape"]["noise"], told["landscape"]["intervals"]["noise"]) == (0, [0, 0])
    assert told["notes"] == ["sigma2 is 0: one batch holds all examples of a client, so its gradient has no noise"]


def test_a_training_that_led_nowhere_is_reported(fleet, tmp_path):
    said = call("calibrate", fleet, *QUICK, "--step-size", 100, "--out", tmp_path / "c.toml").output
    assert "the training ended above its first loss; with a lower --step-size it would visit better points" in said


def test_a_file_that_exists_is_kept_unless_told_otherwise(fleet, tmp_path):
    out = tmp_path / "constants.toml"
    out.write_text("A = 1\nL = 1\nB = 1\n")
    with pytest.raises(InvalidInput, match="exists already; name another file, or give --overwrite to replace it"):
        call("calibrate", fleet, *QUICK, "--out", out)
    assert out.read_text() == "A = 1\nL = 1\nB = 1\n"
    call("calibrate", fleet, *QUICK, "--out", out, "--overwrite")
    assert Constants.load(out).B is None


def test_an_interrupted_measurement_writes_nothing(fleet, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("sojourn.experiments.training.calibrate", interrupted)
    result = invoke("calibrate", fleet, *QUICK, "--out", tmp_path / "c.toml")
    assert result.exit_code == 130
    assert list(tmp_path.iterdir()) == [fleet]


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (["--gradients", "10"], InvalidInput, "gradients must be at least 8 for each point, got 5; give more"),
        (["--gradients", "few"], InvalidInput, "gradients must be a whole number, got 'few'"),
        (["--confidence", "95"], InvalidInput, r"confidence must lie between 0 and 1, got 95\.0"),
        (["--model", "cnnn"], InvalidInput, "did you mean cnn"),
        (["--out", "constants.json"], InvalidInput, r"--out must end in \.toml, got constants\.json; rename it"),
        (["--out", "nowhere/c.toml"], UnwritableFile, "c.toml: No such file or directory; check the folder"),
    ],
)
def test_bad_input_is_refused_with_the_way_out(fleet, tmp_path, monkeypatch, words, error, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        call("calibrate", fleet, *QUICK, *words)


def test_a_calibration_without_a_fleet_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="a calibration needs a fleet, got none; name a fleet file"):
        call("calibrate", "--out", tmp_path / "c.toml")
