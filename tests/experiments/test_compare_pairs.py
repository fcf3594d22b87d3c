"""Algorithms of one seed share everything that is chance: partition, first model, batches, service times."""

import numpy as np
import pytest
import torch
from some_cells import fleet_file

from sojourn.experiments.comparison import ComparisonSpec, Entry, Tuning
from sojourn.experiments.training import simulated
from sojourn.learning.run.build import build

METHODS = ("generalized-asyncsgd", "asyncsgd(assignment=pure)", "fedbuff(size=3)", "fedavg", "fedasync")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    run = {"fleet": fleet_file(tmp_path_factory.mktemp("pairs")), "steps": 200, "partition": "dirichlet(alpha=0.5)"}
    algorithms = [Entry(text, {"algorithm": text, "concurrency": 5}) for text in METHODS]
    algorithms.append(Entry("by speed", {"sampling": "speed", "concurrency": 9}))
    comparison = ComparisonSpec(run, tuple(algorithms), (4,), Tuning((0.1, 0.2)))
    return [build(comparison.final(algorithm, 0.1, 4).config) for algorithm in algorithms]


def test_the_partition_and_the_first_model_are_the_same(built):
    for one in built[1:]:
        assert one.federation.partition.hash == built[0].federation.partition.hash
        assert one.federation.dataset.hash == built[0].federation.dataset.hash
        assert torch.equal(one.federation.first, built[0].federation.first)


def test_the_batches_of_a_clients_nth_task_are_the_same(built):
    for client, nth in ((0, 0), (3, 7), (9, 2)):
        rows = [np.concatenate(list(one.federation.batches.of(client, nth, 1, 1))) for one in built]
        for mine in rows[1:]:
            assert np.array_equal(mine, rows[0])


@pytest.mark.slow
def test_the_service_time_of_a_clients_nth_task_is_the_same(built):
    def services(one):
        trace = simulated(one)
        order = np.argsort(trace.started_at, kind="stable")
        spans: dict[int, list[float]] = {}
        for number in order[~np.isnan(trace.finished_at[order])]:
            spans.setdefault(int(trace.client[number]), []).append(trace.finished_at[number] - trace.started_at[number])
        return spans

    first, *others = (services(one) for one in built)
    compared = 0
    for other in others:
        for client, spans in other.items():
            both = min(len(spans), len(first.get(client, [])))
            assert spans[:both] == pytest.approx(first[client][:both] if both else [], rel=1e-9)
            compared += both
    assert compared > 200


def test_the_trials_of_a_method_hold_the_same_examples_out_whatever_the_seed(built, tmp_path):
    comparison = ComparisonSpec({"fleet": fleet_file(tmp_path), "steps": 10}, (Entry("a"),), (0,), Tuning((0.1,)))
    one, two = (build(comparison.trial(comparison.algorithms[0], 0.1, seed).config) for seed in (10_000, 10_001))
    assert one.federation.dataset.hash == two.federation.dataset.hash
    assert one.federation.partition.hash != two.federation.partition.hash
    held = one.federation.dataset
    whole = built[0].federation.dataset
    assert len(held.train_x) + len(held.test_x) == len(whole.train_x)
    assert abs(np.bincount(held.test_y) - np.bincount(whole.train_y) * 0.1).max() <= 1
