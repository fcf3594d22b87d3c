"""What can be simulated can be trained: laws, links, a server that takes time, availability, every dispatcher."""

import json
from dataclasses import replace

import pytest

from sojourn import Availability, Dispatcher, Fleet, InvalidInput, Law, Plan, Scenario, simulate
from sojourn.experiments.cells import Cell
from sojourn.experiments.comparison import ComparisonSpec, Entry
from sojourn.experiments.training import open_run, train
from sojourn.learning.run.build import check
from sojourn.learning.run.config import TrainConfig

FLEET = Fleet.of(fast=(6, 4.0), slow=(4, 1.0))
SMALL = {"data": "quadratic(dimension=3, clients=10, examples=5)", "partition": "natural", "model": "problem"}
WORDS = {"steps": 80, "concurrency": 8, "seed": 5, "device": "cpu", "step_size": 0.01, **SMALL}
CHURN = Availability.parse("churn(on=20, off=5, leave=lose)")


@pytest.fixture
def fleet(tmp_path):
    FLEET.save(tmp_path / "fleet.csv")
    return str(tmp_path / "fleet.csv")


SAME = {
    "a law for all": (
        {"law": "lognormal(sigma=1)"},
        replace(FLEET, law=(Law.parse("lognormal(sigma=1)"),) * 2),
        Scenario(),
    ),
    "a law for each group": (
        {"law": "fast=deterministic; slow=gamma(shape=2)"},
        replace(FLEET, law=(Law.parse("deterministic"), Law.parse("gamma(shape=2)"))),
        Scenario(),
    ),
    "links": (
        {"uplink": "5; slow=3:deterministic", "downlink": "7"},
        replace(
            FLEET,
            uplink_rate=[5.0, 3.0],
            uplink_law=(Law.parse("exponential"), Law.parse("deterministic")),
            downlink_rate=[7.0, 7.0],
        ),
        Scenario(),
    ),
    "a busy server": ({"server_rate": 20.0}, FLEET, Scenario(server_rate=20.0)),
    "clients that come and go": (
        {"availability": "churn(on=20, off=5, leave=lose)"},
        FLEET,
        Scenario(availability=(CHURN,)),
    ),
    **{
        f"dispatcher {name}": ({"dispatcher": name}, FLEET, Scenario(Dispatcher(name)))
        for name in ("routed", "pure", "shuffled", "idle")
    },
    "rounds that wait for some": (
        {"algorithm": "fedavg(interaction=2)", "dispatcher": "rounds(wait=5)", "start": "even"},
        FLEET,
        Scenario(Dispatcher("rounds", wait=5, interaction=2.0)),
    ),
    "periods as the algorithm has them": (
        {"algorithm": "favano(contacts=3)", "dispatcher": "periodic(contacts=3, waiting=4)", "concurrency": 10},
        FLEET,
        Scenario(Dispatcher("periodic", contacts=3, waiting=4.0, interaction=3.0)),
    ),
}


@pytest.mark.parametrize(("words", "changed", "scenario"), SAME.values(), ids=SAME)
def test_a_run_learns_along_what_simulate_gives_for_the_same_world(fleet, tmp_path, words, changed, scenario):
    words = {**WORDS, **words}
    with open_run(TrainConfig(fleet, **words), tmp_path / "run") as run:
        tasks, start = words["concurrency"], run.built.config.start
        how = {"start": start, "seed": 5, "scenario": scenario, "engine": "events"}
        assert run.trace.hash == simulate(changed, Plan.uniform(changed, tasks), 80, **how).hash
        assert run.go().received >= 80


def test_local_steps_stay_those_of_the_run_whatever_the_world(fleet, tmp_path):
    config = TrainConfig(fleet, **WORDS, algorithm="fedbuff(size=3)", local_steps=4, dispatcher="routed")
    with open_run(config, tmp_path / "run") as run:
        assert run.trace.metadata["local_steps"] == 4
        assert run.trace.metadata["dispatcher"] == "routed"
        assert run.trace.hash != _trace(fleet, tmp_path, algorithm="fedbuff(size=3)", local_steps=4).hash


def _trace(fleet, tmp_path, **words):
    with open_run(TrainConfig(fleet, **{**WORDS, **words}), tmp_path / "other") as run:
        return run.trace


REFUSED = {
    "rounds are no queue": (
        {"algorithm": "fedavg", "dispatcher": "idle"},
        "fedavg needs dispatcher rounds, got idle; leave it out, or choose another algorithm",
    ),
    "queues are no rounds": (
        {"dispatcher": "rounds"},
        "generalized-asyncsgd needs dispatcher one of routed, pure, shuffled, idle, got rounds",
    ),
    "two sayings about who is next": (
        {"algorithm": "asyncsgd(assignment=pure)", "dispatcher": "idle"},
        r"asyncsgd\(assignment=pure\) sets the dispatcher pure, but the dispatcher given is idle; give one of them",
    ),
    "two numbers of calls": (
        {"algorithm": "quafl(contacts=3)", "dispatcher": "periodic(contacts=4, waiting=1)"},
        "quafl has contacts 3, but dispatcher periodic has 4; give it once",
    ),
    "rounds with clients that come and go": (
        {"algorithm": "fedavg", "availability": "churn(on=9, off=1)"},
        "availability needs a dispatcher with queues",
    ),
    "rounds with a busy server": (
        {"algorithm": "fedavg", "server_rate": 3.0},
        "dispatcher rounds has its own interaction time; leave server_rate out",
    ),
    "no such law": ({"law": "normal(sigma=1)"}, "law must be one of exponential, .* got 'normal'"),
    "no rate": ({"uplink": "fast"}, "uplink must be a rate, optionally with :law, got 'fast'"),
    "no speed": ({"server_rate": -1.0}, "server_rate must be positive"),
}


@pytest.mark.parametrize(("words", "message"), REFUSED.values(), ids=REFUSED)
def test_a_world_that_contradicts_the_algorithm_is_refused_before_any_data_is_loaded(fleet, words, message):
    with pytest.raises(InvalidInput, match=message):
        check(TrainConfig(fleet, **{**WORDS, **words}))


def test_an_availability_file_is_known_by_its_content(fleet, tmp_path):
    one, other = tmp_path / "there.toml", tmp_path / "moved.toml"
    one.write_text('[[availability]]\nname = "churn"\non = 20.0\noff = 5.0\n')
    other.write_text(one.read_text())
    config = TrainConfig(fleet, availability=str(one), **WORDS)
    moved = config.resolved(availability=str(other))
    open_run(config, tmp_path / "run").close()
    open_run(moved, tmp_path / "run", resume=True).close()
    cells = [Cell("run", config).hash, Cell("run", moved).hash]
    other.write_text(one.read_text().replace("5.0", "6.0"))
    with pytest.raises(InvalidInput, match="holds another run: its availability_hash is"):
        open_run(moved, tmp_path / "run", resume=True)
    assert cells[0] == cells[1] != Cell("run", moved).hash


def test_a_folder_from_before_there_were_these_keys_is_resumed(fleet, tmp_path):
    config = TrainConfig(fleet, **WORDS)
    open_run(config, tmp_path / "run").close()
    path = tmp_path / "run" / "config.json"
    told = json.loads(path.read_text())
    new = ("trace", "law", "uplink", "downlink", "server_rate", "dispatcher", "availability")
    told["config"] = {key: value for key, value in told["config"].items() if key not in new}
    old = {key: value for key, value in told.items() if key not in ("trace_hash", "availability_hash")}
    path.write_text(json.dumps(old))
    assert train(config, tmp_path / "run", resume=True).complete
    with pytest.raises(InvalidInput, match="its config is law = None"):
        open_run(config.resolved(law="deterministic"), tmp_path / "run", resume=True)


def test_a_key_left_open_leaves_a_cell_where_it_was(fleet):
    plain = Cell("run", TrainConfig(fleet, **WORDS))
    for key, value in {"law": "deterministic", "uplink": "5", "downlink": "5", "dispatcher": "pure"}.items():
        assert Cell("run", plain.config.resolved(**{key: value})).hash != plain.hash
        assert Cell("run", plain.config.resolved(**{key: None})).hash == plain.hash


def test_algorithms_are_compared_in_one_world_and_may_dispatch_otherwise(fleet):
    with pytest.raises(InvalidInput, match="availability must be the same for all algorithms"):
        Entry("one", {"algorithm": "fedasync", "availability": "churn(on=9, off=1)"})
    entries = (
        Entry("idle", {"algorithm": "fedasync"}),
        Entry("pure", {"algorithm": "fedasync", "dispatcher": "pure"}),
    )
    comparison = ComparisonSpec({"fleet": fleet, "steps": 20, "law": "deterministic"}, entries, (0,))
    configs = [comparison.final(entry, None, 0).config for entry in entries]
    assert [(one.law, one.dispatcher) for one in configs] == [("deterministic", None), ("deterministic", "pure")]
