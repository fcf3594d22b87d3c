"""A cell is found by its hash, also in results that were committed before keys were renamed or added."""

from dataclasses import fields

import pytest
from some_cells import fleet_file

from sojourn.experiments.cells import Cell
from sojourn.learning.run.config import OLD_KEYS, TrainConfig, renamed

# of the same runs, computed when step_size was called rate and there was neither loss nor metrics
RECORDED = {
    "plain": ({"partition": "iid"}, "f5555bcbf2a3"),
    "sized": ({"partition": "iid", "step_size": 0.3, "local_step_size": 0.1, "local_steps": 3}, "9f0e2a19ce95"),
    "buffered": ({"partition": "iid", "algorithm": "fedbuff(size=3, server_step_size=0.5)"}, "c854f98376da"),
}


@pytest.mark.parametrize("name", RECORDED)
def test_a_hash_outlives_the_names_of_keys(tmp_path, name):
    keys, before = RECORDED[name]
    assert Cell("some name", TrainConfig(fleet_file(tmp_path), **keys)).hash == before


def test_old_keys_are_read_as_the_new_ones():
    known = {item.name for item in fields(TrainConfig)}
    assert set(OLD_KEYS.values()) <= known
    assert not known & set(OLD_KEYS)
    old = {"fleet": "f.csv", "rate": 0.3, "local_rate": 0.1, "algorithm": "fedavg(server_rate=0.5)"}
    told = TrainConfig.of(renamed(old), "config.json")
    assert (told.step_size, told.local_step_size, told.algorithm) == (0.3, 0.1, "fedavg(server_step_size=0.5)")


def test_an_option_of_ones_own_class_keeps_its_name():
    assert renamed({"algorithm": "mine:Class(server_rate=3)"}) == {"algorithm": "mine:Class(server_rate=3)"}
