"""Service laws: their text form, their variability, and what they refuse."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn import InvalidInput, Law, SojournError
from sojourn.laws.law import EXPONENTIAL

ANY = settings(max_examples=200)


def laws() -> st.SearchStrategy[Law]:
    positive = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
    above_one = st.floats(min_value=1, exclude_min=True, allow_infinity=False)
    return st.one_of(
        st.sampled_from([Law(), Law("deterministic")]),
        st.builds(Law, st.sampled_from(["lognormal", "gamma", "weibull"]), positive),
        st.builds(Law, st.just("hyperexponential"), above_one),
    )


@ANY
@given(laws())
def test_a_law_read_from_its_text_is_the_same_law(law):
    assert Law.parse(str(law)) == law


@pytest.mark.parametrize(
    ("law", "text"),
    [
        (Law(), "exponential"),
        (Law("deterministic"), "deterministic"),
        (Law("lognormal", 1.0), "lognormal(sigma=1)"),
        (Law("gamma", 2), "gamma(shape=2)"),
        (Law("weibull", 0.7), "weibull(shape=0.7)"),
        (Law("hyperexponential", 4.5), "hyperexponential(scv=4.5)"),
        (Law("gamma", 1e300), "gamma(shape=1e+300)"),
    ],
)
def test_a_law_prints_as_its_name_with_its_parameter(law, text):
    assert str(law) == text


def test_spaces_in_the_text_of_a_law_do_not_matter():
    assert Law.parse("  gamma ( shape = 2 ) ") == Law("gamma", 2.0)


def test_a_law_given_nothing_is_exponential():
    assert Law() == EXPONENTIAL == Law.parse("exponential")


@pytest.mark.parametrize(
    ("text", "scv"),
    [
        ("exponential", 1.0),  # variance 1, mean 1
        ("deterministic", 0.0),
        # variance (e^{s^2} - 1) e^{2m + s^2} over squared mean e^{2m + s^2}, s = 1: e - 1
        ("lognormal(sigma=1)", 1.718281828459045),
        # s = 0.5: e^{1/4} - 1
        ("lognormal(sigma=0.5)", 0.2840254166877415),
        # sum of k exponentials: variance k over squared mean k^2: 1/k
        ("gamma(shape=2)", 0.5),
        ("gamma(shape=0.25)", 4.0),
        # E[X^m] = Gamma(1 + m/k); k = 1 is exponential
        ("weibull(shape=1)", 1.0),
        # k = 2: Gamma(2) / Gamma(3/2)^2 - 1 = 1 / (pi/4) - 1 = 4/pi - 1
        ("weibull(shape=2)", 0.2732395447351628),
        # k = 1/2: Gamma(5) / Gamma(3)^2 - 1 = 24/4 - 1
        ("weibull(shape=0.5)", 5.0),
        # k = 1/3: Gamma(7) / Gamma(4)^2 - 1 = 720/36 - 1
        ("weibull(shape=0.3333333333333333)", 19.0),
        ("hyperexponential(scv=4)", 4.0),  # its parameter says it
    ],
)
def test_the_variability_of_a_law_is_variance_over_squared_mean(text, scv):
    assert Law.parse(text).scv == pytest.approx(scv, rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lognorml(sigma=1)", "got 'lognorml'; did you mean lognormal"),
        ("pareto", "law must be one of exponential, .*hyperexponential.*, got 'pareto'"),
        ("pareto(alpha=2)", "law must be one of .*, got 'pareto'"),
        ("", r"law must read like exponential or lognormal\(sigma=1\), got ''"),
        ("Exponential", "law must read like .*, got 'Exponential'"),
        ("gamma(2)", r"law must read like .*, got 'gamma\(2\)'"),
        ("gamma(shape=2", r"law must read like .*, got 'gamma\(shape=2'"),
        ("gamma", r"law gamma needs its parameter shape; write for example gamma\(shape=2\)"),
        ("lognormal(scale=2)", r"law lognormal has the parameter sigma, got 'scale'; write lognormal\(sigma=2\)"),
        ("gamma(shape=two)", "law gamma: shape must be a number, got 'two'"),
        ("gamma(shape=0)", "law gamma: shape must be finite and > 0, got 0.0"),
        ("weibull(shape=-1)", "law weibull: shape must be finite and > 0, got -1.0"),
        ("lognormal(sigma=nan)", "law lognormal: sigma must be finite and > 0, got nan"),
        ("lognormal(sigma=inf)", "law lognormal: sigma must be finite and > 0, got inf"),
        ("hyperexponential(scv=1)", "law hyperexponential: scv must be finite and > 1, got 1.0"),
        ("exponential(rate=2)", "law exponential takes no parameter, got 2.0; write just exponential"),
        ("deterministic(value=1)", "law deterministic takes no parameter, got 1.0; write just deterministic"),
    ],
)
def test_a_text_that_is_not_a_law_is_refused_with_the_rule_and_the_value(text, message):
    with pytest.raises(InvalidInput, match=message):
        Law.parse(text)


def test_a_law_built_by_hand_is_checked_too():
    with pytest.raises(InvalidInput, match=r"law must be one of .*, got 'normal'"):
        Law("normal")
    with pytest.raises(InvalidInput, match=r"takes no parameter, got 0\.0"):
        Law("exponential", 0.0)


def test_what_a_law_refuses_is_a_value_error_and_an_error_of_sojourn():
    with pytest.raises(ValueError, match="law must be one of") as caught:
        Law("normal")
    assert isinstance(caught.value, SojournError)


@pytest.mark.parametrize(
    ("text", "longest"),
    [("deterministic", 1.0), ("empirical(1 2 6)", 2.0), ("exponential", math.inf), ("gamma(shape=9)", math.inf)],
)
def test_only_some_laws_have_a_longest_duration(text, longest):
    assert Law.parse(text).longest == pytest.approx(longest)
