"""Where a cluster is looked for."""

import pytest

from sojourn.errors import SojournError
from sojourn.experiments.on_ray import cluster


def test_an_address_where_nobody_is_is_said_at_once():
    pytest.importorskip("ray")
    with (
        pytest.raises(SojournError, match=r"the Ray cluster at 127\.0\.0\.1:9 does not let us in"),
        cluster("127.0.0.1:9", None),
    ):
        pass
