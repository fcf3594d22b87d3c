"""A run folder is data: it cannot make the program run code, or touch a file outside of it."""

import json
import os
import re
import shutil
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from sojourn.cli.main import app
from sojourn.errors import InvalidInput, SojournError, UnreadableFile
from sojourn.experiments.training import open_run, train
from sojourn.learning.run.config import TrainConfig
from sojourn.learning.run.run_config import config_of
from sojourn.learning.run.store import Store
from sojourn.learning.run.trainer import Outcome
from sojourn.learning.storable import storable
from sojourn.trace import COLUMNS, Trace

OWN = """
from pathlib import Path
import torch
from sojourn.learning.data.load import load_dataset

def _mark():
    with Path(__file__).with_suffix(".marks").open("a") as file:
        file.write("ran")

_mark()

def make():
    _mark()
    return load_dataset("digits")

other = make

def network(dataset):
    _mark()
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
"""


class Stop(Exception):
    pass


def begun(config: TrainConfig, folder: Path) -> Path:
    """A run that was left with checkpoints and without an end."""

    def leave(done: int, total: int, facts: dict) -> None:
        if done >= 20:
            raise Stop

    with pytest.raises(Stop):
        train(config, folder, checkpoint_every=10, progress=leave)
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    (folder / "fleet.csv").write_text("name,count,rate\nfast,6,4\nslow,4,1\n")
    begun(config_in(folder), folder / "run")
    return folder


def config_in(folder: Path, **options) -> TrainConfig:
    return TrainConfig(str(folder / "fleet.csv"), steps=40, concurrency=8, **options)


@pytest.fixture
def run(home, tmp_path) -> Path:
    """A copy of a run that was begun."""
    return Path(shutil.copytree(home / "run", tmp_path / "run"))


def said(folder: Path) -> str:
    """With what sentence a run is refused when it is resumed by its folder alone."""
    with pytest.raises(SojournError) as caught:
        resume(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def resume(folder: Path, *words: object) -> str:
    result = CliRunner().invoke(app, ["train", "--resume", "--out", str(folder), *map(str, words)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


# classes that a checkpoint names


def changed(folder: Path, change) -> None:
    """Write all manifests anew, without checksums, as one who means harm would."""
    for path in (folder / "checkpoints").glob("*.json"):
        text = change(path.read_text())
        with suppress(ValueError, RecursionError):
            text = json.dumps({key: one for key, one in json.loads(text).items() if key not in ("sum", "sums")})
        path.write_text(text)


def test_a_module_that_a_checkpoint_names_is_not_imported(run, tmp_path, monkeypatch):
    (tmp_path / "from_a_checkpoint.py").write_text(OWN + "\nfrom typing import NamedTuple\nState = NamedTuple('S', [])")
    monkeypatch.syspath_prepend(tmp_path)
    changed(run, lambda text: text.replace('"generalized-asyncsgd.state"', '"from_a_checkpoint:State"'))
    changed(run, lambda text: text.replace('"sojourn.learning.algorithms.generalized_asyncsgd:State"',
                                           '"from_a_checkpoint:State"'))  # fmt: skip
    assert "it names the class 'from_a_checkpoint:State', which no algorithm here has declared" in said(run)
    assert "from_a_checkpoint" not in sys.modules
    assert not (tmp_path / "from_a_checkpoint.marks").exists()


def test_a_checkpoint_names_its_classes_by_short_names_and_older_ones_by_modules_still_load(run, tmp_path):
    whole = Path(shutil.copytree(run, tmp_path / "whole"))
    homes = {
        "generalized-asyncsgd.state": "sojourn.learning.algorithms.generalized_asyncsgd:State",
        "server-memory": "sojourn.learning.replay.server_step:ServerMemory",
        "pinned": "sojourn.learning.replay.replay:Pinned",
        "sent": "sojourn.learning.algorithms.base:Sent",
        "update": "sojourn.learning.replay.local:Update",
        "ready": "sojourn.learning.replay.replay:Ready",
    }

    def as_before(text: str) -> str:
        for short, module in homes.items():
            assert f'"named": "{short}"' in text
            text = text.replace(f'"named": "{short}"', f'"named": "{module}"')
        assert text.count(":State") == 1
        return text

    changed(run, as_before)
    resume(run)
    resume(whole)
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


class Undeclared(NamedTuple):
    params: torch.Tensor


@storable("test-trust.state")
class Declared(NamedTuple):
    params: torch.Tensor
    members: tuple[int, ...]


def test_a_strangers_method_declares_the_classes_of_its_state(tmp_path):
    Store(tmp_path).save(3, {"state": Declared(torch.ones(2), (1, 2))})
    _, tree = Store(tmp_path).load()
    assert type(tree["state"]) is Declared
    assert tree["state"].members == (1, 2)
    with pytest.raises(InvalidInput, match=r"cannot hold .*test_trust:Undeclared, .* write @storable\("):
        Store(tmp_path).save(4, {"state": Undeclared(torch.ones(2))})
    assert Store(tmp_path).steps() == [3]


def test_a_name_in_checkpoints_belongs_to_one_class():
    with pytest.raises(InvalidInput, match=r"the name 'sent' in checkpoints already belongs to .*base"):
        storable("sent")(Undeclared)
    with pytest.raises(InvalidInput, match="only a NamedTuple can be storable, Stop is not one"):
        storable("stop")(Stop)


def test_a_method_whose_state_cannot_be_stored_is_refused_before_it_trains(home, tmp_path, monkeypatch):
    from sojourn.learning.algorithms.fedasync import FedAsync

    class State(NamedTuple):
        params: torch.Tensor
        version: int

    monkeypatch.setattr(FedAsync, "init", lambda self, params, setting: State(params, 0))
    with pytest.raises(InvalidInput, match="a checkpoint cannot hold"):
        open_run(config_in(home, algorithm="fedasync"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


# code that a configuration names


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of the user's own; what it gives is the number of times that anything in it ran."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_of_trust", raising=False)
    (tmp_path / "own_of_trust.py").write_text(OWN)
    marks = tmp_path / "own_of_trust.marks"
    return lambda: marks.read_text().count("ran") if marks.exists() else 0


def named(folder: Path, **texts: str) -> None:
    """Write other words into the configuration of a run."""
    content = json.loads((folder / "config.json").read_text())
    content["config"] |= texts
    (folder / "config.json").write_text(json.dumps(content))


def test_code_that_a_folder_names_is_not_run_and_the_sentence_says_what_to_repeat(run, own):
    named(run, data="own_of_trust:make")
    assert said(run) == (
        f"the run in {run} names code to be run, data 'own_of_trust:make'; "
        "repeat --data own_of_trust:make, or give --trust"
    )
    named(run, model="own_of_trust:network")
    assert "repeat --data own_of_trust:make --model own_of_trust:network, or give --trust" in said(run)
    named(run, data="digits", model="mlp", algorithm="own_of_trust:Algorithm")
    assert "repeat --algorithm own_of_trust:Algorithm, or give --trust" in said(run)
    assert own() == 0


def test_what_is_no_printable_text_is_not_printed_as_it_is(run):
    named(run, data="mine:make\x1b[2J\nerror: all is well")
    assert "data 'mine:make\\x1b[2J\\nerror: all is well'; give --trust to run it anyway" in said(run)


@pytest.mark.parametrize(
    "words",
    [["--data", "own_of_trust:make", "--model", "own_of_trust:network"], ["--trust"]],
    ids=["repeated", "trusted"],
)
def test_code_that_is_named_again_or_trusted_is_run_and_the_run_goes_on_to_the_same_bits(home, tmp_path, own, words):
    config = config_in(home, data="own_of_trust:make", model="own_of_trust:network")
    train(config, tmp_path / "whole")
    begun(config, tmp_path / "run")
    before = own()
    resume(tmp_path / "run", *words)
    assert own() > before
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "run")]
    assert models[0] == models[1]


def test_half_of_the_code_named_again_is_not_enough(home, tmp_path, own):
    begun(config_in(home, data="own_of_trust:make", model="own_of_trust:network"), tmp_path / "run")
    before = own()
    with pytest.raises(InvalidInput, match=r"model 'own_of_trust:network'; repeat --model own_of_trust:network, or"):
        resume(tmp_path / "run", "--data", "own_of_trust:make")
    assert own() == before


def test_other_code_than_the_folders_is_another_run(home, tmp_path, own):
    begun(config_in(home, data="own_of_trust:make"), tmp_path / "run")
    with pytest.raises(InvalidInput, match=r"holds another run: its config is data = 'own_of_trust:make' \(now 'own_"):
        resume(tmp_path / "run", "--data", "own_of_trust:other")


def test_a_run_file_is_the_users_own_word(home, tmp_path, own):
    text = f'fleet = "{home / "fleet.csv"}"\nsteps = 40\nconcurrency = 8\ndata = "own_of_trust:make"\n'
    (tmp_path / "run.toml").write_text(text)
    begun(config_in(home, data="own_of_trust:make"), tmp_path / "run")
    assert "resumed at update" in resume(tmp_path / "run", "--config", tmp_path / "run.toml")


def test_a_folder_of_seeds_names_code_as_little(home, tmp_path, own):
    words = ["train", str(home / "fleet.csv"), "--seeds", "2", "--steps", "20", "--data", "own_of_trust:make"]
    assert CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out")]).exit_code == 0
    before = own()
    assert "repeat --data own_of_trust:make, or give --trust" in said(tmp_path / "out")
    assert own() == before
    assert "resumed at update 40 of 40" in resume(tmp_path / "out", "--data", "own_of_trust:make")


def test_what_is_given_beside_a_folder_must_be_what_it_says(run):
    with pytest.raises(InvalidInput, match=r"holds another run: its config is batch_size = 32 \(now 7\)"):
        resume(run, "--batch-size", 7)
    assert "resumed at update" in resume(run, "--batch-size", 32, "--steps", 40)


def test_an_interrupted_run_with_own_code_says_which_to_repeat(home, tmp_path, own, monkeypatch):
    def stopped(runs, *_, **__):
        return [Outcome(run.folder, False, 7, run.metrics.last) for run in runs]

    monkeypatch.setattr("sojourn.learning.run.trainer.together", stopped)
    words = ["train", str(home / "fleet.csv"), "--data", "own_of_trust:make", "--out", str(tmp_path / "my run")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 130
    again = f"sojourn train --resume --out '{tmp_path / 'my run'}' --data own_of_trust:make"
    assert f"continue with: {again}\n" in result.output


def test_python_may_ask_for_a_configuration_with_the_code_that_it_names(run):
    named(run, data="mine:make")
    with pytest.raises(InvalidInput, match="names code to be run"):
        config_of(run)
    assert config_of(run, {"data": "mine:make"}).data == config_of(run, trust=True).data == "mine:make"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1]", "config.json must be a table of keys, it is not"),
        ('{"config": 3}', "its config.json holds no configuration"),
        ('{"config": {"fleet": "f", "data": ["os:abort"]}}', "data must be text, got ['os:abort']"),
        ('{"config": {"fleet": "f", "colour": 1}}', "unknown key 'colour'"),
        ('{"config": ' * 10**5, "is not valid JSON (nested too deep)"),
        ('{"a": ' * 200 + "1" + "}" * 200, "is nested more than 100 levels deep"),
        ("{", "is not valid JSON"),
        (" " * 2**24 + "{}", "must be at most 16,777,216 bytes long"),
    ],
)
def test_a_configuration_that_is_not_one_is_refused_in_one_sentence(run, content, message):
    (run / "config.json").write_text(content)
    assert message in said(run)


# links


INSIDE = ("lock", "config.json", "trace.parquet", "metrics.csv", "checkpoints", "model.safetensors", "summary.json")
INSIDE += ("config.json.partial", "metrics.csv.partial", "tensorboard", "curves.png", "notes")


@pytest.mark.parametrize("name", INSIDE)
def test_a_link_in_a_run_folder_is_refused_and_what_it_leads_to_stays_as_it_was(run, tmp_path, name):
    place, victim = run / name, tmp_path / "victim"
    if place.exists():
        place.rename(victim)
    else:
        victim.write_text("precious")
    place.symlink_to(victim)
    before = contents(victim)
    assert f"{place} must not be a link, it points to {victim}; put a copy in its place" in said(run)
    assert contents(victim) == before


def contents(place: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in [place, *place.rglob("*")] if path.is_file()}


@pytest.mark.parametrize("pattern", ["*.json", "*.safetensors"])
def test_a_link_among_the_checkpoints_is_refused(run, tmp_path, pattern):
    place = sorted((run / "checkpoints").glob(pattern))[-1]
    place.rename(tmp_path / "victim")
    place.symlink_to(tmp_path / "victim")
    assert f"{place} must not be a link" in said(run)


def test_a_link_in_a_folder_that_is_not_begun_yet_is_refused(home, tmp_path):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "trace.parquet").symlink_to(tmp_path / "victim")
    with pytest.raises(InvalidInput, match=r"trace\.parquet must not be a link"):
        train(config_in(home), tmp_path / "run")
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_pipe_in_a_run_folder_is_refused_instead_of_waited_for(run):
    (run / "metrics.csv").unlink()
    os.mkfifo(run / "metrics.csv")
    assert "metrics.csv must be a file or a folder, it is a pipe or a device; remove it" in said(run)


def test_the_run_folder_itself_may_be_a_link(run, tmp_path):
    (tmp_path / "elsewhere").symlink_to(tmp_path)
    (tmp_path / "linked").symlink_to(run)
    assert "resumed at update" in resume(tmp_path / "elsewhere" / "linked")


@pytest.mark.parametrize("name", ["seeds.json", "seed-1", "curves.svg"])
def test_a_link_in_a_folder_of_seeds_is_refused(home, tmp_path, name):
    out, victim = tmp_path / "out", tmp_path / "victim"
    victim.mkdir()
    out.mkdir()
    (out / name).symlink_to(victim)
    words = ["train", str(home / "fleet.csv"), "--seeds", "2", "--steps", "20", "--out", str(out)]
    assert f"{name} must not be a link" in str(CliRunner().invoke(app, words).exception)
    assert not any(victim.iterdir())


# what a checkpoint and a trace claim


@pytest.mark.parametrize(
    "name", ["../victim.safetensors", "{folder}/victim.safetensors", "victim.safetensors", 7, None]
)
def test_a_checkpoint_names_files_of_its_own_folder_only(run, tmp_path, name):
    tensors = sorted((run / "checkpoints").glob("*.safetensors"))[-1]
    for place in (run, tmp_path, run / "checkpoints"):
        shutil.copy(tensors, place / "victim.safetensors")
    wanted = json.dumps(name.format(folder=tmp_path) if isinstance(name, str) else name)
    changed(run, lambda text: re.sub(r'"[-0-9]+\.safetensors"', lambda _: wanted, text))
    assert ("it names the file '" if isinstance(name, str) else "checkpoint") in said(run)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[" * 10**5, "nested too deep"),
        ('{"sojourn_checkpoint": 1, "step": 20, "tree": ' + '{"list": [' * 99 + "]}" * 99 + "}", "levels deep"),
        (
            '{"sojourn_checkpoint": 1, "step": 20, "tree": {"map": []}}',
            "the checkpoint does not belong to this run: trace_hash",
        ),
        ('{"sojourn_checkpoint": 1, "step": 20, "tree": {"float": "0x1p99999"}}', "too large"),
        ('{"sojourn_checkpoint": 1, "step": 20, "tree": 5}', "the checkpoint does not belong to this run: trace_hash"),
        ('{"sojourn_checkpoint": 1, "step": 20, "tree": {"named": "sent", "fields": {"colour": 1}}}', "colour"),
    ],
)
def test_a_manifest_that_is_not_one_is_refused_in_one_sentence(run, content, message):
    changed(run, lambda text: content)
    assert message in said(run)


@storable("test-trust.twin")
class Twin(NamedTuple):
    params: torch.Tensor
    version: int
    memory: object
    concurrency: int = 0
    total: torch.Tensor | None = None
    gathered: int = 0


def test_a_state_of_another_method_is_refused(run):
    before = ("generalized-asyncsgd.state", "sojourn.learning.algorithms.generalized_asyncsgd:State")
    for name in before:
        changed(run, lambda text, name=name: text.replace(f'"named": "{name}"', '"named": "test-trust.twin"'))
    assert "the checkpoint does not belong to this run: state must be of another kind" in said(run)


@pytest.mark.parametrize("change", [lambda one: one[:5].clone(), lambda one: one.double()], ids=["shorter", "finer"])
def test_models_of_another_size_or_kind_are_refused(run, change):
    changed(run, str)
    for path in (run / "checkpoints").glob("*.safetensors"):
        save_file({key: change(one) if one.ndim else one for key, one in load_file(path).items()}, path)
    assert "the checkpoint does not belong to this run: its models or its tasks are others" in said(run)


def test_metrics_that_no_run_writes_are_refused(run):
    length = (run / "metrics.csv").stat().st_size
    (run / "metrics.csv").write_text("received\n" + "1" * max(length, 200_000))
    changed(run, lambda text: text.replace(f'["metrics", {length}]', '["metrics", 200000]'))
    assert "has no column version" in said(run)


def test_files_that_are_no_checkpoints_are_not_taken_for_some(run):
    (run / "checkpoints" / "notes.json").write_text("{}")
    assert "resumed at update" in resume(run)


@pytest.mark.parametrize(
    "header",
    [
        {"t0": {"dtype": "F32", "shape": [10**10], "data_offsets": [0, 4 * 10**10]}},
        {"t0": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 16]}},
        {"t0": {"dtype": "F32", "shape": [2**62, 0], "data_offsets": [0, 0]}},
    ],
)
def test_a_file_of_tensors_that_claims_more_than_it_holds_is_refused(run, header):
    changed(run, str)
    text = json.dumps(header).encode()
    for path in (run / "checkpoints").glob("*.safetensors"):
        path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(16))
    assert "checkpoint" in said(run)


@pytest.mark.parametrize(
    ("key", "value"),
    [("dispatched_step", 2**40), ("client", 10), ("client", -1), ("work", 10**9), ("applied_step", -2)],
)
def test_a_trace_that_cannot_be_of_this_run_is_refused(run, key, value):
    trace = Trace.load(run / "trace.parquet")
    columns = {name: np.array(getattr(trace, name)) for name in COLUMNS}
    columns[key][-1] = value
    Trace(**columns, metadata=trace.metadata).save(run / "trace.parquet")
    assert f"is not the trace of this run: {key} must lie between" in said(run)


def test_a_damaged_file_is_unreadable(run):
    for path in (run / "checkpoints").glob("*.json"):
        path.write_text(path.read_text()[:100])
    with pytest.raises(UnreadableFile):
        resume(run)


def test_laws_and_dispatchers_of_your_own_are_code_that_a_run_names():
    config = TrainConfig(
        "fleet.csv", law="gamma(shape=2); slow=mine:Law(a=1)", uplink="1e5:gamma(shape=2)", dispatcher="mine:Dispatcher"
    )
    assert config.code == {"law": "gamma(shape=2); slow=mine:Law(a=1)", "dispatcher": "mine:Dispatcher"}
