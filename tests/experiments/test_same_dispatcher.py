"""A comparison says which dispatcher each algorithm has, and can give all of them one."""

import json

import pytest
from pretended import pretend, row
from some_cells import fleet_file

import sojourn
from sojourn import Fleet, Plan
from sojourn.errors import InvalidInput
from sojourn.experiments.compare import Compared, _collect, finals, known_before, summary
from sojourn.experiments.comparison import ComparisonSpec, Entry
from sojourn.experiments.same_dispatcher import dispatcher_of
from sojourn.experiments.tune import Tuned

ALGORITHMS = {"uniform": "asyncsgd", "buffered": "fedbuff(size=3)", "rounds": "fedavg"}


@pytest.fixture
def spec(tmp_path):
    def make(*names, dispatch=None, seeds=(0, 1), **more):
        run = {"fleet": fleet_file(tmp_path), "steps": 10, **more}
        entries = tuple(Entry(name, {"algorithm": ALGORITHMS.get(name, name)}) for name in names)
        return ComparisonSpec(run, entries, seeds, dispatch=dispatch)

    return make


def dispatchers(spec):
    return {one.name: dispatcher_of(spec.final(one, None, 0).config) for one in spec.algorithms}


def test_each_algorithm_has_its_own_dispatcher_unless_one_is_asked_for(spec):
    own = spec("uniform", "buffered", "rounds")
    assert dispatchers(own) == {"uniform": "routed", "buffered": "idle", "rounds": "rounds"}
    assert dispatchers(spec("uniform", "buffered", dispatch="same")) == {"uniform": "routed", "buffered": "routed"}
    assert dispatchers(spec("buffered", "uniform", dispatch="same")) == {"uniform": "idle", "buffered": "idle"}
    assert dispatchers(spec("uniform", "buffered", dispatch="pure")) == {"uniform": "pure", "buffered": "pure"}


def test_an_algorithm_that_has_the_dispatcher_already_keeps_its_cells(spec):
    free, held = spec("uniform", "buffered"), spec("uniform", "buffered", dispatch="same")
    hashes = [{one.name: each.final(one, None, 0).hash for one in each.algorithms} for each in (free, held)]
    assert hashes[0]["uniform"] == hashes[1]["uniform"]
    assert hashes[0]["buffered"] != hashes[1]["buffered"]
    assert held.trial(held.algorithms[1], 0.1, 5).config.dispatcher == "routed"


def test_a_plan_that_holds_one_task_per_client_is_idle(spec):
    assert dispatchers(spec("generalized-asyncsgd", "buffered", cap="1"))["generalized-asyncsgd"] == "idle"
    assert dispatchers(spec("generalized-asyncsgd", cap="2")) == {"generalized-asyncsgd": "routed (cap 2)"}


def test_all_that_cannot_run_under_it_are_refused_in_one_sentence(spec):
    with pytest.raises(InvalidInput) as refused:
        spec("uniform", "rounds", "asyncsgd(assignment=pure)", dispatch="idle")
    said = str(refused.value)
    assert said.startswith("dispatch idle cannot be held for rounds (fedavg needs dispatcher rounds, got idle) and ")
    assert "asyncsgd(assignment=pure) (" in said
    assert "uniform" not in said
    assert said.endswith("leave these out, or compare without dispatch")
    assert "\n" not in said


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"dispatch": "fastest"}, "dispatch must be same, or a dispatcher such as idle: dispatcher must be one of"),
        ({"dispatch": "same", "dispatcher": "pure"}, "dispatcher pure for all and dispatch same exclude each other"),
        ({"dispatch": "idle", "concurrency": 11}, "idle cannot be held for uniform"),
    ],
)
def test_what_cannot_be_meant_is_refused(spec, keys, message):
    with pytest.raises(InvalidInput, match=message):
        spec("uniform", **keys)


@pytest.fixture
def ended(spec, tmp_path):
    def make(**keys):
        comparison = spec("uniform", "buffered", **keys)
        compared = Compared(tmp_path, Tuned(()))
        cells = finals(comparison, compared.tuned)
        for name, seed, cell in cells:
            pretend(cell, tmp_path, [row(0), row((10 if name == "uniform" else 40) + seed, time=10.0)])
        _collect(comparison, compared, cells)
        return comparison, compared

    return make


def test_the_table_tells_dispatcher_and_updates_and_the_notes_warn(ended):
    comparison, compared = ended()
    had = {row["algorithm"]: (row["dispatcher"], row["updates"]) for row in compared.table}
    assert had == {"uniform": ("routed", 10.5), "buffered": ("idle", 40.5)}
    assert {row["dispatcher"] for row in compared.rows} == {"routed", "idle"}
    (warning,) = [note for note in compared.notes if "dispatcher" in note]
    assert warning.startswith("the algorithms have different dispatchers (uniform routed, buffered idle)")
    assert warning.endswith(
        "; --dispatch same gives all of them the baseline's, --dispatch idle gives all of them idle"
    )
    assert json.loads(json.dumps(summary(comparison, compared)))["table"][0]["dispatcher"] == "routed"


def test_a_dropped_cap_is_told_and_only_ways_that_work_are_offered(tmp_path):
    fleet = fleet_file(tmp_path)
    Plan.uniform(Fleet.load(fleet), 8, cap=1).save(tmp_path / "pu.json")
    entries = [{"algorithm": "asyncsgd"}, {"algorithm": "generalized-asyncsgd"}]
    plans = [{"name": "pu", "plan": str(tmp_path / "pu.json")}]
    content = {"run": {"fleet": fleet, "steps": 10}, "algorithm": entries, "plan": plans}
    dropped, different = known_before(ComparisonSpec.of(content, "compare"))
    assert dropped == "asyncsgd, pu keeps its own dispatcher, routed: the cap of plan pu is not used"
    assert "--dispatch idle" in different
    assert "--dispatch same" not in different
    with pytest.raises(InvalidInput, match="cannot be held"):
        ComparisonSpec.of({**content, "dispatch": "same"}, "compare")
    assert known_before(ComparisonSpec.of({**content, "dispatch": "idle"}, "compare")) == []


def test_nobody_is_warned_where_all_have_one_dispatcher(ended):
    comparison, compared = ended(dispatch="same")
    assert not [note for note in compared.notes if "dispatcher" in note]
    assert summary(comparison, compared)["comparison"]["dispatch"] == "routed"
    assert summary(comparison, compared)["comparison"]["moved"] == ("buffered",)


def test_a_file_and_a_call_from_python_ask_for_it_in_the_same_word(tmp_path):
    run = {"fleet": fleet_file(tmp_path), "steps": 10}
    entries = [{"algorithm": "asyncsgd"}, {"algorithm": "fedbuff(size=3)"}]
    told = ComparisonSpec.of({"run": run, "algorithm": entries, "dispatch": "same"}, "a file")
    assert set(dispatchers(told).values()) == {"routed"}
    with pytest.raises(InvalidInput, match="dispatch idle cannot be held for fedavg"):
        sojourn.compare(run["fleet"], ["asyncsgd", "fedavg"], steps=10, dispatch="idle", folder=tmp_path / "cmp")
    assert not (tmp_path / "cmp").exists()
