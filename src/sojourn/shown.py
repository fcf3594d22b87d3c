r"""What strangers wrote, as it may be shown: nothing that moves a cursor or changes colours, nothing without an end.

Names and texts come from files that anyone may have made. A terminal obeys the control characters in them, so they are
shown as what they are instead: the escape character as `\x1b`, a line break as `\n`.
"""

from typing import Any


def visible(text: str) -> str:
    r"""The text with every character that does not print written as its number.

    >>> visible("a\x1b[31mred\nline"), visible("naïve ± 1")
    ('a\\x1b[31mred\\nline', 'naïve ± 1')
    """
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text)


def short(text: str, most: int = 60) -> str:
    """The text on one line, its middle left out where it is longer than `most`.

    >>> short("a name that goes on and on", 20)
    'a name t ...  and on'
    """
    if len(text) > 4 * most:  # what is left out need not be looked at
        text = text[: 2 * most] + text[-2 * most :]
    said = visible(text)
    if len(said) <= most:
        return said
    half = (most - 5) // 2
    return f"{said[: most - 5 - half]} ... {said[len(said) - half :]}"


def quoted(value: Any, most: int = 60) -> str:
    """A value of any kind as a sentence may quote it.

    >>> quoted("fast"), quoted([1, 2]), quoted("x" * 1000, 20)
    ("'fast'", '[1, 2]', "'xxxxxxx ... xxxxxx'")
    """
    if isinstance(value, int) and value.bit_length() > 200:  # Python refuses to write very long ones
        return f"a whole number of {value.bit_length()} bits"
    return short(repr(value), most)
