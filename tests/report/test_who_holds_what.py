"""The picture of who holds what: written twice, the same bytes for the same table, at any size."""

import numpy as np
import pytest

from sojourn.report.figures import who_holds_what

pytest.importorskip("matplotlib")


@pytest.mark.parametrize("shape", [(10, 10), (100, 10), (1, 1), (3, 200)])
def test_a_table_of_any_size_is_drawn_and_written_as_svg_and_png(tmp_path, shape):
    table = np.random.default_rng(0).integers(0, 40, shape)
    written = who_holds_what(table, tmp_path / "held", "who holds what")
    assert [path.name for path in written] == ["held.svg", "held.png"]
    assert all(path.stat().st_size > 5000 for path in written)


def test_counts_are_written_into_small_tables_only(tmp_path):
    small, large = np.full((3, 2), 7777), np.full((100, 10), 7777)
    svg = [who_holds_what(table, tmp_path / "held", "")[0].read_text() for table in (small, large)]
    assert [text.count("<!-- 7777 -->") for text in svg] == [6, 0]


def test_the_same_table_gives_the_same_picture(tmp_path):
    table = np.arange(20).reshape(4, 5)
    first, second = (who_holds_what(table, tmp_path / name, "again")[0].read_bytes() for name in ("a", "b"))
    assert first == second
