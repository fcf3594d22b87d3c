r"""Text of unknown origin made safe to show: it cannot move the cursor or change colours, and it is not too long.

Names and texts come from files that anyone may have written. A terminal obeys the control characters in them, so these
are shown by their codes: the escape character as `\x1b`, a line break as `\n`.
"""

import math
from typing import Any

PLAIN = 1e9  # below this, a large number is written out, with commas between the thousands


def visible(text: str) -> str:
    r"""Return the text with every character that does not print replaced by its code.

    >>> visible("a\x1b[31mred\nline"), visible("naïve ± 1")
    ('a\\x1b[31mred\\nline', 'naïve ± 1')
    """
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text)


def short(text: str, most: int = 60) -> str:
    """Return the text on one line; if it is longer than `most` characters, its middle is left out.

    >>> short("a name that goes on and on", 20)
    'a name t ...  and on'
    """
    if len(text) > 4 * most:  # the part that is left out need not be processed
        text = text[: 2 * most] + text[-2 * most :]
    said = visible(text)
    if len(said) <= most:
        return said
    half = (most - 5) // 2
    return f"{said[: most - 5 - half]} ... {said[len(said) - half :]}"


def quoted(value: Any, most: int = 60) -> str:
    """Return a value of any kind as an error message may quote it.

    >>> quoted("fast"), quoted([1, 2]), quoted("x" * 1000, 20)
    ("'fast'", '[1, 2]', "'xxxxxxx ... xxxxxx'")
    """
    if isinstance(value, int) and value.bit_length() > 200:  # Python refuses to write very long ones
        return f"a whole number of {value.bit_length()} bits"
    return short(repr(value), most)


def rounded(value: float, digits: int = 6) -> str:
    """Return a number for a person, with so many digits and with commas between the thousands.

    >>> rounded(13_107.4, 4), rounded(1234.5678), rounded(0.25), rounded(2e12, 4)
    ('13,110', '1,234.57', '0.25', '2e+12')
    """
    text = f"{value:.{digits}g}"
    if not 1000 <= abs(value) < PLAIN:
        return text
    near = float(text)
    return f"{int(near):,}" if near == math.floor(near) else f"{near:,}"


def whole(value: float) -> str:
    """Return a number of things that theory predicts, such as updates: to four digits, and without decimals from 100.

    >>> whole(667.7), whole(13_107.4), whole(2.5)
    ('668', '13,110', '2.5')
    """
    return rounded(round(value) if 100 <= abs(value) < PLAIN else value, 4)
