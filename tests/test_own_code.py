"""Code of the user's own: found by name, called with what its text says, refused in a sentence."""

from dataclasses import dataclass

import pytest

from sojourn import InvalidInput
from sojourn.own_code import names_code, own_call

HERE = __name__


@dataclass(frozen=True)
class Sized:
    """A class with arguments of every kind."""

    size: int = 3
    share: float = 0.5
    sharp: bool = False
    name: str = "none"
    limit: float | None = None


def untold(first, extra=1, **more):
    """Nothing is said of its arguments."""
    return first, extra, more


def nothing(width: int = 2):
    """Needs nothing."""
    return width


def raises():
    """Fails by itself."""
    raise TypeError("mine")


def test_arguments_are_read_as_what_the_class_says_they_are():
    made = own_call("thing", f"{HERE}:Sized(size=7, share=1, sharp=true, name=12, limit=none)")
    assert made == Sized(7, 1.0, True, "12", None)
    assert own_call("thing", f" {HERE}:Sized ") == Sized()
    assert own_call("thing", f"{HERE}:Sized(limit=2)").limit == 2.0


def test_where_nothing_is_reported_a_number_is_what_looks_like_one():
    found = own_call("thing", f"{HERE}:untold(extra=2, a=0.5, b=true, c=none, d=word(x, y))", "given")
    assert found == ("given", 2, {"a": 0.5, "b": True, "c": None, "d": "word(x, y)"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{HERE}:Sized(size=2.5)", "size must be a whole number, got '2.5'"),
        (f"{HERE}:Sized(sharp=yes)", "sharp must be true or false, got 'yes'"),
        (f"{HERE}:Sized(3)", "arguments must read like key=value, got '3'"),
        (f"{HERE}:Sized(size=1, size=2)", "size must be given once"),
        (f"{HERE}:Sized(length=2)", "unexpected keyword argument 'length'; change its arguments"),
        (f"{HERE}:Sized(size=2", "must read like package.module:name"),
        (f"{HERE}:untold", "missing a required argument: 'first'"),
        (f"{HERE}:Sise", "has no function 'Sise'; did you mean"),
        ("no.such.module:make", "cannot be imported"),
    ],
)
def test_what_cannot_be_called_is_refused_in_a_sentence(text, said):
    with pytest.raises(InvalidInput, match=said.replace("(", r"\(")):
        own_call("thing", text)


def test_a_function_is_handed_only_what_it_has_arguments_without_a_default_for():
    assert own_call("thing", f"{HERE}:nothing", "given") == 2
    assert own_call("thing", f"{HERE}:nothing(width=5)", "given", "more") == 5
    assert own_call("thing", f"{HERE}:untold", "given", "more") == ("given", 1, {})


def test_an_error_inside_the_users_function_stays_theirs():
    with pytest.raises(TypeError, match="mine"):
        own_call("thing", f"{HERE}:raises")


def test_code_is_recognised_before_anything_is_imported():
    assert [names_code(text) for text in ("a.b:c", "a:b(c=d)", "digits", "cifar10(folder=C:/x)")] == [
        True,
        True,
        False,
        False,
    ]
