"""Random numbers by counter: uniform, exponential, split by purpose, taken up again anywhere."""

import itertools

import numba
import numpy as np
import pytest
from scipy import stats

from sojourn.random import CLOCK, EDGE, HEIGHT, MOVE, ROUTING, SERVICE, START, exponential, keys, mix, unit

LUCK = 1e-4  # a p-value below this is no accident


@numba.njit
def _units(key, out):
    for i in range(out.size):
        key += MOVE
        out[i] = unit(mix(key))
    return key


@numba.njit
def _exponentials(key, edge, height, out):
    for i in range(out.size):
        out[i], key = exponential(key, edge, height)
    return key


def units(key, size):
    out = np.empty(size)
    return out, np.uint64(_units(np.uint64(key), out))


def exponentials(key, size):
    out = np.empty(size)
    return out, np.uint64(_exponentials(np.uint64(key), EDGE, HEIGHT, out))


@pytest.fixture(scope="module")
def million():
    return exponentials(keys(1)[CLOCK], 1_000_000)[0]


def test_the_stream_of_key_zero_is_splitmix64():
    # the published outputs of SplitMix64 with seed 0
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    with np.errstate(over="ignore"):
        moved = [np.uint64(count) * MOVE for count in (1, 2, 3)]
    assert [int(mix(key)) for key in moved] == expected


def test_a_unit_is_the_upper_53_bits_over_two_to_the_53():
    assert unit(np.uint64(0)) == 0.0
    assert unit(np.uint64(2**64 - 1)) == 1 - 2.0**-53
    assert unit(np.uint64(2**63)) == 0.5


def test_units_are_uniform_on_the_unit_interval():
    drawn, _ = units(keys(1)[ROUTING], 1_000_000)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    counts = np.bincount((drawn * 1000).astype(int), minlength=1000)
    assert stats.chisquare(counts).pvalue > LUCK


def test_neighbouring_units_of_a_stream_fill_the_square_evenly():
    drawn, _ = units(keys(2)[SERVICE], 1_000_000)
    cells = (drawn[0::2] * 30).astype(int) * 30 + (drawn[1::2] * 30).astype(int)
    assert stats.chisquare(np.bincount(cells, minlength=900)).pvalue > LUCK


@pytest.mark.parametrize("purposes", list(itertools.combinations([ROUTING, SERVICE, CLOCK, START], 2)))
def test_streams_of_two_purposes_are_uncorrelated(purposes):
    size = 200_000
    left, right = (units(keys(3)[purpose], size)[0] for purpose in purposes)
    assert abs(np.corrcoef(left, right)[0, 1]) < 4 / np.sqrt(size)


def test_streams_of_neighbouring_replications_are_uncorrelated():
    size = 200_000
    left, right = (units(keys(3, replication)[SERVICE], size)[0] for replication in (0, 1))
    assert abs(np.corrcoef(left, right)[0, 1]) < 4 / np.sqrt(size)


def test_keys_differ_by_purpose_by_replication_and_by_seed():
    found = np.concatenate([keys(seed, replication) for seed in range(20) for replication in range(50)])
    assert found.dtype == np.uint64
    assert found.size >= 20 * 50 * 4
    assert np.unique(found).size == found.size


def test_keys_depend_on_seed_and_replication_alone():
    assert np.array_equal(keys(5, 7), keys(5, 7))
    assert np.array_equal(keys(5), keys(5, 0))


def test_a_stream_of_units_continues_from_its_key():
    whole, last = units(keys(4)[ROUTING], 1000)
    begun, key = units(keys(4)[ROUTING], 300)
    rest, end = units(key, 700)
    assert np.array_equal(whole, np.concatenate([begun, rest]))
    assert end == last


def test_a_stream_of_exponentials_continues_from_its_key():
    # 100 000 draws take a few thousand edge cases, each of which uses more than one number of the stream
    whole, last = exponentials(keys(4)[CLOCK], 100_000)
    begun, key = exponentials(keys(4)[CLOCK], 33_333)
    rest, end = exponentials(key, 66_667)
    assert np.array_equal(whole, np.concatenate([begun, rest]))
    assert end == last


def test_the_layers_under_the_exponential_have_equal_areas():
    area = 3.949659822581572e-3
    assert np.allclose(EDGE[1:256] * np.diff(HEIGHT[1:]), area, rtol=1e-9, atol=0)
    # the base layer holds its box and the tail beyond it: r e^-r + e^-r
    assert np.isclose(EDGE[0] * HEIGHT[1], area, rtol=1e-12, atol=0)
    assert np.isclose((EDGE[1] + 1) * HEIGHT[1], area, rtol=1e-9, atol=0)


def test_exponentials_follow_the_exponential_law(million):
    assert million.min() >= 0
    assert stats.kstest(million, "expon").pvalue > LUCK


def test_exponentials_have_mean_and_variance_one(million):
    # standard errors over N draws: mean 1/sqrt(N) = .001, variance sqrt(8/N) = .0028
    assert abs(million.mean() - 1) < 4 * np.sqrt(1 / million.size)
    assert abs(million.var() - 1) < 4 * np.sqrt(8 / million.size)


def test_exponentials_fill_every_octave_of_probability(million):
    # e^-x is uniform: its counts in 2000 equal cells see a layer that is drawn too often
    counts = np.bincount((np.exp(-million) * 2000).astype(int).clip(max=1999), minlength=2000)
    assert stats.chisquare(counts).pvalue > LUCK


def test_the_exponential_tail_beyond_the_last_layer_starts_again():
    # P(X > r) = e^-r = 4.5e-4: 4540 +- 67 of ten million, and what exceeds r is exponential again
    drawn, _ = exponentials(keys(6)[CLOCK], 10_000_000)
    right = EDGE[1]
    beyond = drawn[drawn > right] - right
    expected = drawn.size * np.exp(-right)
    assert abs(beyond.size - expected) < 4 * np.sqrt(expected)
    assert stats.kstest(beyond, "expon").pvalue > LUCK
