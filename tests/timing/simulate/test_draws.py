"""Durations drawn by key follow their laws and depend on their name alone."""

import numba
import numpy as np
import pytest
from scipy import stats

from sojourn import InvalidInput
from sojourn.laws.law import Law
from sojourn.random import MOVE, mix, unit
from sojourn.timing.simulate.draws import PIECE, draw, law_fields, named, stream

DRAWS = 20_000


def sample(law, key=1, number=DRAWS):
    values: list[float] = []
    (fields,) = law_fields([law], values)
    table = np.array([*values, 0.0])
    return np.array([draw(*fields, table, np.uint64(named(np.uint64(key), 0, n)))[0] for n in range(number)])


LAWS = {
    "exponential": stats.expon(),
    "lognormal(sigma=0.8)": stats.lognorm(0.8, scale=np.exp(-0.32)),
    "gamma(shape=0.4)": stats.gamma(0.4, scale=1 / 0.4),
    "gamma(shape=3)": stats.gamma(3, scale=1 / 3),
    "erlang(shape=2)": stats.gamma(2, scale=1 / 2),
    "weibull(shape=0.7)": stats.weibull_min(0.7, scale=1 / np.exp(__import__("math").lgamma(1 + 1 / 0.7))),
}


@pytest.mark.parametrize("text", LAWS)
def test_draws_follow_their_law(text):
    assert stats.kstest(sample(Law.parse(text)), LAWS[text].cdf).pvalue > 0.001


@pytest.mark.parametrize("text", [*LAWS, "hyperexponential(scv=4)", "empirical(0.5 1 1.5)", "deterministic"])
def test_draws_have_mean_one_and_the_variance_of_their_law(text):
    law = Law.parse(text)
    values = sample(law)
    error = np.sqrt(law.scv / DRAWS)
    assert values.mean() == pytest.approx(1, abs=4 * error + 1e-12)
    fourth = np.mean((values - values.mean()) ** 4)
    assert values.var() == pytest.approx(law.scv, abs=5 * np.sqrt(fourth / DRAWS) + 1e-12)


def test_a_hyperexponential_is_two_exponentials_with_balanced_means():
    # scv = 4: p = (1 + sqrt(3/5)) / 2 = 0.887298; phases with means 1/(2p) and 1/(2(1-p))
    p = 0.8872983346207417
    law = sample(Law("hyperexponential", 4.0))
    cdf = lambda x: p * -np.expm1(-2 * p * x) + (1 - p) * -np.expm1(-2 * (1 - p) * x)  # noqa: E731
    assert stats.kstest(law, cdf).pvalue > 0.001


def test_an_empirical_law_gives_its_durations_equally_often():
    values, counts = np.unique(sample(Law.empirical([1, 2, 3, 6])), return_counts=True)
    assert values == pytest.approx([1 / 3, 2 / 3, 1, 2])
    assert stats.chisquare(counts).pvalue > 0.001


def test_a_draw_depends_on_its_name_alone():
    (fields,) = law_fields([Law("lognormal", 1.0)], [])
    table = np.zeros(1)

    def duration(client, nth, key=5):
        return draw(*fields, table, np.uint64(named(np.uint64(key), client, nth)))[0]

    assert duration(3, 7) == duration(3, 7)
    others = {duration(3, 8), duration(4, 7), duration(7, 3), duration(3, 7, key=6)}
    assert len(others | {duration(3, 7)}) == 5


@numba.njit
def _first_units(key, clients, tasks):
    out = np.empty((clients, tasks))
    for client in range(clients):
        for nth in range(tasks):
            out[client, nth] = unit(mix(named(key, client, nth) + MOVE))
    return out


@pytest.mark.parametrize(("clients", "tasks"), [(1, 1_000_000), (1000, 1000), (500_000, 2)])
def test_the_names_of_neighbouring_tasks_and_clients_give_independent_numbers(clients, tasks):
    drawn = _first_units(np.uint64(9), clients, tasks)
    assert stats.chisquare(np.bincount((drawn.ravel() * 1000).astype(int), minlength=1000)).pvalue > 1e-4
    for left, right in ((drawn[:, :-1], drawn[:, 1:]), (drawn[:-1], drawn[1:])):  # the next task, the next client
        if left.size:
            cells = (left * 30).astype(int) * 30 + (right * 30).astype(int)
            assert stats.chisquare(np.bincount(cells.ravel(), minlength=900)).pvalue > 1e-4


def test_a_client_that_moves_on_by_a_piece_comes_to_the_name_of_its_next_task():
    key = np.uint64(5)
    with np.errstate(over="ignore"):
        assert named(key, 3, 0) == stream(key, 3)
        assert named(key, 3, 8) == np.uint64(named(key, 3, 7)) + PIECE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("weibull(shape=0.001)", r"law weibull: shape must be at least 0\.006 to be simulated, got 0\.001"),
        (
            "hyperexponential(scv=1e300)",
            r"law hyperexponential: scv must be at most 1e\+12 to be simulated, got 1e\+300",
        ),
    ],
)
def test_a_law_whose_mean_is_beyond_the_range_of_numbers_is_refused(text, message):
    with pytest.raises(InvalidInput, match=message):
        law_fields([Law.parse(text)], [])
    law_fields([Law.parse("weibull(shape=0.006)"), Law.parse("hyperexponential(scv=1e12)")], [])
