"""Fixed seeds give the traces, plans and models that they always gave."""

import json

import pytest

from same_numbers import CASES, RECORDED, arrays_of, digest, gist, machine

KNOWN = json.loads(RECORDED.read_text("utf-8"))


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_fixed_seed_gives_what_it_always_gave(kind, name):
    arrays, recorded = arrays_of(kind, name), KNOWN["cases"][f"{kind}: {name}"]
    assert gist(arrays) == pytest.approx(recorded["gist"], rel=1e-4)
    if machine() == KNOWN["machine"]:
        assert digest(arrays) == recorded["digest"]
