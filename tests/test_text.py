"""The text form name(key=value, ...): what it reads, and that it refuses what is too long without repeating it."""

import pytest

from sojourn import InvalidInput, Law
from sojourn.text import parse_call, parse_choice

OPTIONS = {"wait": int, "scale": float, "sizes": str}


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("rounds", "rounds", {}),
        ("  rounds ( ) ", "rounds", {}),
        ("rounds(wait=8)", "rounds", {"wait": 8}),
        ("rounds( wait = 8 ,, scale=0.5, )", "rounds", {"wait": 8, "scale": 0.5}),
        ("a-2(sizes=power(exponent=1, least=2), wait=3)", "a-2", {"sizes": "power(exponent=1, least=2)", "wait": 3}),
        ("a(sizes=f(g(x, y), z), wait=3)", "a", {"sizes": "f(g(x, y), z)", "wait": 3}),
    ],
)
def test_a_call_is_read(text, name, options):
    assert parse_call("dispatcher", text, OPTIONS) == (name, options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"dispatcher must read like name or name\(key=value, \.\.\.\), got ''"),
        ("Rounds", "must read like .*, got 'Rounds'"),
        ("rounds(wait=8", r"must read like .*, got 'rounds\(wait=8'"),
        ("rounds wait=8", "must read like .*, got 'rounds wait=8'"),
        ("rounds)", r"must read like .*, got 'rounds\)'"),
        ("rounds(wait=8) then", "must read like"),
        ("rounds(wait=x)", "dispatcher rounds: wait must be a whole number, got 'x'"),
        ("rounds(weight=8)", "dispatcher rounds: options are wait, scale, sizes, got 'weight=8'"),
        ("rounds(8)", "dispatcher rounds: options are wait, scale, sizes, got '8'"),
        ("rounds(wait=8, wait=9)", "dispatcher rounds: wait must be given once, got it twice; keep one"),
    ],
)
def test_what_is_no_call_is_refused(text, message):
    with pytest.raises(InvalidInput, match=message):
        parse_call("dispatcher", text, OPTIONS)


LONG = {
    "commas": "rounds(" + "," * 200_000 + ")",
    "spaces": "rounds" + " " * 100_000 + "x",
    "spaces in brackets": "rounds(" + " " * 100_000 + "x",
    "spaces before": " " * 100_000 + "(",
    "digits": "rounds(wait=" + "9" * 100_000 + ")",
    "brackets": "rounds" + "(" * 100_000,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_a_text_form_has_an_end(text):
    for parse in (parse_call, lambda *words: parse_choice(*words[:2], {"rounds": OPTIONS})):
        with pytest.raises(InvalidInput, match="dispatcher must have at most 1,000 characters, got") as caught:
            parse("dispatcher", text, OPTIONS)
        assert len(str(caught.value)) < 200


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_a_law_has_an_end_too(text):
    with pytest.raises(InvalidInput, match="law must have at most 1,000 characters, got") as caught:
        Law.parse(text)
    assert len(str(caught.value)) < 200


def test_only_measured_durations_may_be_long():
    text = "empirical(" + "0.5 1.5 " * 20_000 + ")"
    assert Law.parse(text).durations[0] == 0.5
    with pytest.raises(InvalidInput, match=r"durations must be numbers .*, got 'empirical\(0\.5.* \.\.\. .*x\)'"):
        Law.parse(text.replace("1.5 )", "x)"))
