"""Images that many processes will want: fetched and decoded once, before they begin."""

from collections.abc import Iterable

from sojourn.learning.data.images.load import KINDS
from sojourn.learning.data.load import load_dataset


def prepare(texts: Iterable[str]) -> None:
    """Load each dataset of images once, so that its decoded arrays lie in the cache and are mapped from then on."""
    for text in dict.fromkeys(texts):
        if text.partition("(")[0].strip() in KINDS:
            load_dataset(text)
