"""Partitions: every example dealt once, to whom the text says, the same way for the same seed."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sojourn import InvalidInput
from sojourn.learning.data.dealing import PowerSizes
from sojourn.learning.data.partition import Partition, partition

ANY = settings(max_examples=60)
TEN_CLASSES = np.repeat(np.arange(10), 60)  # 600 examples

label_lists = st.lists(st.integers(0, 5), min_size=1, max_size=80).map(np.array)
texts = st.one_of(
    st.just("iid"),
    st.builds("iid(sizes=power(exponent={}, least={}))".format, st.floats(0, 4), st.integers(1, 3)),
    st.builds("classes(k={})".format, st.integers(1, 4)),
    st.builds("dirichlet(alpha={}, least={})".format, st.floats(1e-3, 100), st.integers(1, 3)),
    st.builds("shards(k={})".format, st.integers(1, 4)),
    st.builds("by-speed(k={}, slow={}, alone={})".format, st.integers(1, 3), st.integers(0, 4), st.integers(1, 2)),
)


@ANY
@given(texts, label_lists, st.integers(1, 12), st.integers(0, 5))
def test_every_example_is_dealt_exactly_once_to_clients_that_all_hold_some(text, labels, clients, seed):
    try:
        dealt = partition(text, labels, clients, seed)
    except InvalidInput:  # too many clients, classes or shards for so few examples
        assume(False)
    assert sorted(dealt.order.tolist()) == list(range(labels.size))
    assert dealt.clients == clients
    assert dealt.sizes.min() >= 1
    assert np.concatenate([dealt.of(client) for client in range(clients)]).tolist() == dealt.order.tolist()
    table = dealt.table(labels, 6)
    assert table.sum(axis=1).tolist() == dealt.sizes.tolist()
    assert table.sum(axis=0).tolist() == np.bincount(labels, minlength=6).tolist()
    assert partition(text, labels, clients, seed).hash == dealt.hash


@pytest.mark.parametrize("text", ["iid", "iid(sizes=power)", "classes(k=3)", "dirichlet", "shards", "by-speed"])
def test_another_seed_deals_otherwise(text):
    assert len({partition(text, TEN_CLASSES, 20, seed).hash for seed in range(10)}) == 10


def test_a_partition_by_hand():
    dealt = Partition(order=[3, 0, 2, 1], start=[0, 1, 4])
    assert (dealt.clients, dealt.sizes.tolist(), dealt.of(1).tolist()) == (2, [1, 3], [0, 2, 1])
    # client 0 holds example 3 (label 1); client 1 holds 0, 2, 1 (labels 0, 2, 0)
    assert dealt.table([0, 0, 2, 1], classes=3).tolist() == [[0, 1, 0], [2, 0, 1]]
    with pytest.raises(ValueError, match="read-only"):
        dealt.order[0] = 1


def test_equal_parts_differ_by_at_most_one_example():
    sizes = partition("iid", np.zeros(103), clients=10, seed=0).sizes
    assert sorted(sizes.tolist()) == [10] * 7 + [11] * 3


def test_sizes_by_a_power_law_by_hand():
    # 1 each, the remaining 11 as 1 : 1/2 : 1/3, that is 6, 3, 2
    assert PowerSizes(exponent=1, least=1).of(examples=14, clients=3).tolist() == [7, 4, 3]
    # the remaining 8 as 4.36, 2.18, 1.45: the example left over goes to the largest fraction, the third
    assert PowerSizes(exponent=1, least=1).of(examples=11, clients=3).tolist() == [5, 3, 3]
    assert sorted(partition("iid(sizes=power(exponent=1, least=1))", np.zeros(14), 3, seed=2).sizes) == [3, 4, 7]


def test_power_sizes_are_not_always_largest_for_the_first_client():
    first = {int(np.argmax(partition("iid(sizes=power)", TEN_CLASSES, 5, seed).sizes)) for seed in range(20)}
    assert first == {0, 1, 2, 3, 4}


@ANY
@given(st.integers(1, 10), st.integers(0, 20))
def test_with_classes_every_client_holds_exactly_k_and_holders_share_evenly(k, seed):
    table = partition(f"classes(k={k})", TEN_CLASSES, 12, seed).table(TEN_CLASSES, 10)
    assert ((table > 0).sum(axis=1) == k).all()
    for held in table.T:
        assert np.ptp(held[held > 0]) <= 1
        assert held.sum() == 60


@ANY
@given(st.integers(0, 200))
def test_no_class_is_without_a_holder_even_where_clients_are_just_enough(seed):
    table = partition("classes(k=2)", TEN_CLASSES, 5, seed).table(TEN_CLASSES, 10)
    assert ((table > 0).sum(axis=0) == 1).all()  # 5 * 2 = 10 classes, each held once


def test_class_numbers_that_do_not_occur_are_no_classes_to_hold():
    labels = np.repeat([0, 4, 9], 10)
    table = partition("classes(k=3)", labels, 2, seed=0).table(labels, 10)
    assert table[:, [0, 4, 9]].tolist() == [[5] * 3] * 2


def test_all_ways_to_draw_classes_come_out_equally_often():
    # 4 clients, 2 of 4 classes each: a client's pair is one of 6, by symmetry each with probability 1/6
    labels = np.repeat(np.arange(4), 4)
    drawn = [
        tuple(np.flatnonzero(partition("classes(k=2)", labels, 4, seed).table(labels, 4)[0])) for seed in range(600)
    ]
    counts = np.array([drawn.count(pair) for pair in sorted(set(drawn))])
    assert counts.size == 6
    assert np.square(counts - 100).sum() / 100 < 25.7  # chi-square, 5 degrees of freedom: 1e-4


def test_with_shards_every_client_gets_k_runs_of_the_sorted_examples():
    table = partition("shards(k=2)", TEN_CLASSES, 20, seed=4).table(TEN_CLASSES, 10)
    # 40 shards of 15 examples, four to a class of 60
    assert set(np.unique(table)) <= {0, 15, 30}
    assert (table.sum(axis=1) == 30).all()


def test_by_speed_some_classes_are_held_by_the_last_clients_alone():
    table = partition("by-speed(k=2, slow=6, alone=3)", TEN_CLASSES, 20, seed=1).table(TEN_CLASSES, 10)
    rare = table[:14].sum(axis=0) == 0
    assert rare.sum() == 3
    assert (table[14:, rare] > 0).any(axis=1).all()  # each of the last holds one of them
    assert ((table > 0).sum(axis=1)[14:] == 2).all()


def test_by_speed_half_of_the_clients_are_slow_unless_said_otherwise():
    table = partition("by-speed", TEN_CLASSES, 20, seed=1).table(TEN_CLASSES, 10)
    assert (table[:10].sum(axis=0) == 0).sum() == 3


def test_the_smaller_alpha_the_fewer_classes_a_client_holds():
    labels = np.repeat(np.arange(10), 600)
    held = [
        (partition(f"dirichlet(alpha={alpha}, least=1)", labels, 20, 0).table(labels, 10) > 0).sum(axis=1).mean()
        for alpha in (0.01, 0.3, 1000)
    ]
    assert held[0] < 2 < held[1] < held[2] == 10


def test_dirichlet_shares_have_the_mean_and_variance_of_their_law():
    # a client's share of a class: mean 1/n, variance (1/n)(1 - 1/n) / (n alpha + 1)
    clients, alpha = 4, 0.5
    labels = np.repeat(np.arange(500), 400)
    share = partition(f"dirichlet(alpha={alpha})", labels, clients, seed=1).table(labels, 500) / 400
    variance = 0.25 * 0.75 / 3
    assert np.abs(share.mean(axis=1) - 0.25).max() < 4 * np.sqrt(variance / 500)
    assert share.var() == pytest.approx(variance, rel=0.1)


@ANY
@given(st.integers(1, 30), st.floats(1e-300, 1), st.integers(0, 5))
def test_nobody_is_left_with_less_than_least(least, alpha, seed):
    dealt = partition(f"dirichlet(alpha={alpha}, least={least})", TEN_CLASSES, 20, seed)
    assert dealt.sizes.min() >= least
    assert dealt.sizes.sum() == 600


def test_a_large_alpha_cuts_classes_evenly():
    table = partition("dirichlet(alpha=1e6)", TEN_CLASSES, 6, seed=0).table(TEN_CLASSES, 10)
    assert np.abs(table - 10).max() <= 1


def test_the_natural_partition_is_the_owners():
    dealt = partition("natural", [0, 0, 1, 1], clients=2, seed=9, owner=[1, 0, 0, 1])
    assert [dealt.of(client).tolist() for client in (0, 1)] == [[1, 2], [0, 3]]


@pytest.mark.parametrize(
    ("text", "labels", "clients", "message"),
    [
        ("idd", 20, 2,
         "partition must be one of iid, classes, dirichlet, shards, by-speed, natural, got 'idd'; did you mean iid?"),
        ("iid", 20, 21, "partition iid: clients must be at least 1 and at most the 20 examples, got 21"),
        ("iid", 20, 0, "partition iid: clients must be at least 1 and at most the 20 examples, got 0"),
        ("iid(k=2)", 20, 2, "partition iid: options are sizes, got 'k=2'"),
        ("iid(sizes=zipf)", 20, 2, "sizes must be power, got 'zipf'"),
        ("iid(sizes=power(least=11))", 20, 2,
         "sizes power: least must be at least 1 and, for 2 clients, within the 20 examples, got 11"),
        ("iid(sizes=power(exponent=-1, least=2))", 20, 2,
         "sizes power: exponent must be finite and at least 0, got -1.0"),
        ("iid(sizes=power(exponent=steep))", 20, 2, "sizes power: exponent must be a number, got 'steep'"),
        ("classes(k=11)", 20, 2, "partition classes: k must be from 1 to 10, the number of classes, got 11"),
        ("classes(k=0)", 20, 2, "partition classes: k must be from 1 to 10, the number of classes, got 0"),
        ("classes(k=4)", 20, 2, "partition classes: 2 clients with k=4 cannot hold all 10 classes; raise k or clients"),
        ("classes(k=10)", 20, 3,
         "partition classes: class 0 has 2 examples for 3 holders; lower k or the number of clients"),
        ("dirichlet(alpha=0)", 20, 2, "partition dirichlet: alpha must be above 0 and at most 1e6, got 0.0"),
        ("dirichlet(alpha=nan)", 20, 2, "partition dirichlet: alpha must be above 0 and at most 1e6, got nan"),
        ("dirichlet(least=0)", 20, 2,
         "partition dirichlet: least must be at least 1 and, for 2 clients, within the 20 examples, got 0"),
        ("dirichlet(least=11)", 20, 2,
         "partition dirichlet: least must be at least 1 and, for 2 clients, within the 20 examples, got 11"),
        ("shards(k=0)", 20, 2, "partition shards: k must be at least 1 and 2 * k at most the 20 examples, got 0"),
        ("shards(k=11)", 20, 2, "partition shards: k must be at least 1 and 2 * k at most the 20 examples, got 11"),
        ("by-speed(alone=0)", 20, 4,
         "partition by-speed: alone and k must be at least 1 and together at most 10, the number of classes, "
         "got alone=0 and k=2"),
        ("by-speed(alone=8, k=3)", 20, 10,
         "partition by-speed: alone and k must be at least 1 and together at most 10, the number of classes, "
         "got alone=8 and k=3"),
        ("by-speed(slow=2)", 20, 4,
         "partition by-speed: slow must be at least alone=3 and less than the 4 clients, got 2"),
        ("by-speed(slow=4)", 20, 4,
         "partition by-speed: slow must be at least alone=3 and less than the 4 clients, got 4"),
        ("by-speed(k=1, alone=1)", 20, 10,
         "partition by-speed: class 7 has 2 examples for 5 holders; lower k or the number of clients"),
        ("natural", 20, 2, "partition natural needs a dataset whose examples have owners, this one has none; use iid"),
    ],
)  # fmt: skip
def test_what_cannot_be_dealt_is_refused_in_one_sentence(text, labels, clients, message):
    with pytest.raises(InvalidInput) as caught:
        partition(text, np.arange(labels) % 10, clients, seed=0)
    assert str(caught.value) == message


def test_labels_that_are_no_classes_can_only_be_dealt_at_random():
    values = np.linspace(0, 1, 20)
    assert partition("iid", values, 4, seed=0).sizes.tolist() == [5] * 4
    with pytest.raises(
        InvalidInput, match="partition shards needs class numbers as labels, got float64 values; use iid"
    ):
        partition("shards", values, 4, seed=0)


def test_a_natural_partition_of_other_clients_or_examples_is_refused():
    with pytest.raises(InvalidInput, match="owners are 2 clients of 3 examples, got 3 clients and 3 examples"):
        partition("natural", [0, 0, 0], clients=3, seed=0, owner=[0, 1, 1])
    with pytest.raises(InvalidInput, match="owners are 2 clients of 3 examples, got 2 clients and 4 examples"):
        partition("natural", [0] * 4, clients=2, seed=0, owner=[0, 1, 1])


@pytest.mark.parametrize(
    ("order", "start", "message"),
    [
        ([0, 1], [0], r"start must run from 0 to the 2 examples, got \[0\]"),
        ([0, 1], [1, 2], "start must run from 0 to the 2 examples"),
        ([0, 1], [0, 3], "start must run from 0 to the 2 examples"),
        ([0, 1], [0, 1, 1, 2], "every client needs an example, client 1 has none; lower the number of clients"),
        ([0, 0], [0, 2], "order must hold example numbers, each at most once"),
        ([0, -1], [0, 2], "order must hold example numbers, each at most once"),
    ],
)
def test_arrays_that_are_no_partition_are_refused(order, start, message):
    with pytest.raises(InvalidInput, match=f"^partition given: {message}"):
        Partition(order, start)


def test_owners_and_clients_that_do_not_exist_are_refused():
    with pytest.raises(InvalidInput, match="owners must be client numbers from 0 to 1, got 0 to 2"):
        Partition.by_owner([0, 1, 2], clients=2)
    with pytest.raises(InvalidInput, match="owners must be client numbers from 0 to 1, got -1 to 1"):
        Partition.by_owner([-1, 1])
    with pytest.raises(InvalidInput, match="there must be at least one example, got none"):
        Partition.by_owner([])
    for client in (-1, 2):
        with pytest.raises(InvalidInput, match=f"client must be a number from 0 to 1, got {client}"):
            Partition.by_owner([0, 1]).of(client)


def test_a_table_needs_a_class_for_every_example():
    dealt = Partition.by_owner([0, 1, 1])
    with pytest.raises(InvalidInput, match="labels must be one class number for each of 3 examples, got 2"):
        dealt.table([0, 1], classes=2)
    with pytest.raises(InvalidInput, match="labels must be class numbers from 0 to 1, got 2"):
        dealt.table([0, 1, 2], classes=2)
