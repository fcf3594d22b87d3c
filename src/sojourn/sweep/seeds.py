"""Seeds: so many from a first one on, or a list."""

from typing import Any

from sojourn.errors import InvalidInput


def seeds_of(given: Any, where: str, first: int = 0) -> tuple[int, ...]:
    """The seeds that a number or a list means.

    >>> seeds_of(3, "seeds"), seeds_of([5, 7], "seeds"), seeds_of(2, "seeds", first=10)
    ((0, 1, 2), (5, 7), (10, 11))
    """
    if not isinstance(first, int) or isinstance(first, bool) or first < 0:
        raise InvalidInput(
            f"{where}: seed in [run], the first of them, must be a whole number from 0 on, got {first!r}"
        )
    if isinstance(given, int) and not isinstance(given, bool):
        if given < 1:
            raise InvalidInput(f"{where} must be a whole number of at least 1, or a list, got {given}")
        return tuple(range(first, first + given))
    if not isinstance(given, list | tuple) or not given:
        raise InvalidInput(f"{where} must be a whole number of at least 1, or a list, got {given!r}")
    for seed in given:
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise InvalidInput(f"{where} must hold whole numbers of at least 0, got {seed!r}")
    if len(set(given)) != len(given):
        raise InvalidInput(f"{where} must be different, got {list(given)}")
    return tuple(given)
