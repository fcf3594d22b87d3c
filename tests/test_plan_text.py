"""A plan in words: sampling as a text or a file."""

import numpy as np
import pytest

from sojourn import Fleet, InvalidInput, UnreadableFile
from sojourn.plan_text import plan_of

FLEET = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))


def test_a_sampling_file_names_each_group_once(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("name,probability\nfast,0.1\nslow,0.05\nslow,0.1\n")
    with pytest.raises(InvalidInput, match=r"p\.csv must name each group once, got 'slow' twice; keep one row"):
        plan_of(FLEET, str(path), None, 10)


def test_a_sampling_file_may_name_a_hundred_thousand_groups(tmp_path):
    fleet = Fleet.of_rates(np.ones(100_000))
    path = tmp_path / "p.csv"
    path.write_text("name,probability\n" + "".join(f"{name},1e-5\n" for name in reversed(fleet.name)))
    assert plan_of(fleet, str(path), None, 10).sampling == pytest.approx(1e-5)


@pytest.mark.parametrize("text", ["fast=0.1," * 100_000, "=" * 200_000, "fast=" + "9" * 200_000 + "x,slow=1"])
def test_a_long_text_that_is_no_sampling_is_not_said_in_full(text):
    with pytest.raises(InvalidInput, match=r"got '.{0,40} \.\.\. .{0,40}'$"):
        plan_of(FLEET, text, None, 10)


def test_a_long_name_of_a_file_is_not_said_in_full():
    with pytest.raises(UnreadableFile, match="there is no file") as caught:
        plan_of(FLEET, "x" * 100_000, None, 10)
    assert len(str(caught.value)) < 400


def test_a_cap_names_each_group_once():
    with pytest.raises(InvalidInput, match="cap must name each group once, got 'fast' twice; keep one"):
        plan_of(Fleet.of(fast=(2, 4.0), slow=(2, 1.0)), None, None, None, cap="fast=2,fast=3")
