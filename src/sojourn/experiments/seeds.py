"""Seeds: so many from a first one on, or a list."""

from typing import Any

from sojourn.errors import InvalidInput
from sojourn.shown import quoted
from sojourn.values import LARGEST

MOST_SEEDS = 1_000_000


def seeds_of(given: Any, where: str, first: int = 0) -> tuple[int, ...]:
    """The seeds that a number or a list means.

    >>> seeds_of(3, "seeds"), seeds_of([5, 7], "seeds"), seeds_of(2, "seeds", first=10)
    ((0, 1, 2), (5, 7), (10, 11))
    """
    if not isinstance(first, int) or isinstance(first, bool) or not 0 <= first <= LARGEST - MOST_SEEDS:
        raise InvalidInput(
            f"{where}: seed in [run], the first of them, must be a whole number from 0 on, got {quoted(first)}"
        )
    if isinstance(given, int) and not isinstance(given, bool):
        if not 1 <= given <= MOST_SEEDS:
            most = f" and at most {MOST_SEEDS:,}" if given > 1 else ""
            raise InvalidInput(f"{where} must be a whole number of at least 1{most}, or a list, got {quoted(given)}")
        return tuple(range(first, first + given))
    if not isinstance(given, list | tuple) or not given:
        raise InvalidInput(f"{where} must be a whole number of at least 1, or a list, got {quoted(given)}")
    for seed in given:
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= LARGEST:
            raise InvalidInput(f"{where} must hold whole numbers of at least 0, got {quoted(seed)}")
    if len(set(given)) != len(given):
        raise InvalidInput(f"{where} must be different, got {list(given)}")
    return tuple(given)
