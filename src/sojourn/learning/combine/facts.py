"""What a combination means for the method that uses it: the memory of its buffer, and whether it is still the mean.

Both are for `sojourn algorithms`. A combination of your own that does not say them is `not stated` and not checked.
"""

from sojourn.learning.combine.table import combination

NOT_SAID = "not stated"


def is_mean(combine: str, many: int) -> bool | None:
    """Return whether a combination of `many` updates is their mean; None = it does not say.

    >>> is_mean("mean", 10), is_mean("median", 10), is_mean("median", 2)
    (True, False, True)
    """
    says = getattr(combination(combine), "is_mean", None)
    return None if says is None else bool(says(many))


def memory(combine: str, many: int, *, word: str, models: int, tables: int = 0, entries: int = 0) -> str:
    """Return the models in the state of a method while its buffer fills, up to the last update but one.

    - `many`: updates in a full buffer, which is the option `word` of the method
    - `models`: models in the state besides the buffer
    - `tables`: tables with a model for each client
    - `entries`: models that the method itself holds for each update in the buffer

    >>> memory("mean", 10, word="size", models=1), memory("median", 10, word="size", models=1)
    ('2 models', 'size models')
    >>> memory("clipping", 10, word="size", models=2, tables=1, entries=1)
    'n + 2 size + 1 models'
    """
    rule = combination(combine)
    keeps_each = getattr(rule, "keeps_each", None)
    if keeps_each is None:
        return NOT_SAID
    each = entries + keeps_each
    number = models + rule.follows + (not keeps_each and many > 1)
    if many > 1:
        number -= each
    else:
        each = 0
    terms = [(tables, "n"), (each, word)]
    said = [letter if factor == 1 else f"{factor} {letter}" for factor, letter in terms if factor]
    whole = " + ".join([*said, *([str(number)] if number else [])])
    return f"{whole} model{'' if whole == '1' else 's'}"
