"""A plan in words: sampling as a text or a file."""

import numpy as np
import pytest

from sojourn import Fleet, InvalidInput, Plan, UnreadableFile
from sojourn.plan_text import NAMES, plan_of, sampling_note

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
def test_a_long_text_that_is_not_a_sampling_is_not_said_in_full(text):
    with pytest.raises(InvalidInput, match=r"got '.{0,40} \.\.\. .{0,40}'$"):
        plan_of(FLEET, text, None, 10)


def test_a_long_name_of_a_file_is_not_said_in_full():
    with pytest.raises(UnreadableFile, match="there is no file") as caught:
        plan_of(FLEET, "x" * 100_000, None, 10)
    assert len(str(caught.value)) < 400


def test_a_cap_names_each_group_once():
    with pytest.raises(InvalidInput, match="cap must name each group once, got 'fast' twice; keep one"):
        plan_of(Fleet.of(fast=(2, 4.0), slow=(2, 1.0)), None, None, None, cap="fast=2,fast=3")


@pytest.mark.parametrize("power", [-1.0, 0.5, 2.0])
def test_a_power_of_speed_is_in_proportion_to_it(power):
    plan = plan_of(FLEET, f"speed^{power}", None, 10)
    assert plan.sampling / plan.sampling[1] == pytest.approx(FLEET.rate**power, rel=1e-14)
    assert (FLEET.count * plan.sampling).sum() == pytest.approx(1, rel=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_a_power_of_speed(name):
    assert plan_of(FLEET, name, None, 10) == plan_of(FLEET, f"speed^{NAMES[name]}", None, 10)


def test_uniform_and_speed_are_those_of_a_plan():
    assert plan_of(FLEET, "uniform", None, 10) == Plan.uniform(FLEET, 10)
    assert plan_of(FLEET, "speed", None, 10) == Plan.by_speed(FLEET, 10)


def test_weights_are_divided_by_their_sum_which_is_reported():
    assert plan_of(FLEET, "fast=3,slow=1", None, 10).sampling == pytest.approx([0.15, 0.05], rel=1e-14)
    assert sampling_note(FLEET, "fast=3,slow=1") == (
        "the weights of --sampling sum to 20 over all 10 clients and were divided by it: "
        "'fast' 0.15, 'slow' 0.05 per client"
    )


@pytest.mark.parametrize("text", [None, "uniform", "speed^2", "fast=0.15,slow=0.05"])
def test_of_probabilities_there_is_nothing_to_say(text):
    assert sampling_note(FLEET, text) is None


def test_a_file_may_have_weights(tmp_path):
    path = tmp_path / "w.csv"
    path.write_text("name,weight\nfast,3\nslow,1\n")
    assert plan_of(FLEET, str(path), None, 10) == plan_of(FLEET, "fast=3,slow=1", None, 10)


def test_under_a_cap_weights_stay_as_they_are():
    assert plan_of(FLEET, "fast=3,slow=1", None, 10, cap="1").sampling.tolist() == [3, 1]
    assert sampling_note(FLEET, "fast=3,slow=1", cap="1") is None


@pytest.mark.parametrize("text", ["speed^", "speed^fast", "speed^nan", "speed^inf"])
def test_a_power_of_speed_is_a_number(text):
    with pytest.raises(InvalidInput, match=r"speed\^E must have a number E, got .*; write for example speed\^0\.5"):
        plan_of(FLEET, text, None, 10)


def test_a_power_that_leaves_a_client_nothing_is_refused():
    with pytest.raises(
        InvalidInput, match=r"speed\^1e\+06 must leave every client a probability above 0.* nearer to 0"
    ):
        plan_of(FLEET, "speed^1e6", None, 10)


def test_a_misspelt_name_is_met_with_the_right_one():
    with pytest.raises(UnreadableFile, match=r"sampling must be uniform, speed, .*did you mean root-speed or speed\?"):
        plan_of(FLEET, "rootspeed", None, 10)
