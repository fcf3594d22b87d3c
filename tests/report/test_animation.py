"""Pictures that move show what the trace says: places, counts and rings, and nothing else."""

import math
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any_fleet import linked_fleet
from sojourn import Availability, Dispatcher, Fleet, InvalidInput, Plan, Scenario, Trace, animate, simulate
from sojourn.report.animation.film import Film
from sojourn.report.animation.panel import words
from sojourn.report.animation.scene import SERVED, scene_of

FLEET = Fleet.of(fast=(3, 2.0), slow=(2, 0.5))
PLAN = Plan.uniform(FLEET, concurrency=7)
LONG = simulate(FLEET, PLAN, steps=4000, seed=1)


def value(steps, at):
    return [number for since, number in steps if since <= at][-1]


def moments(trace, time):
    """Between any two events, so that nothing changes at them."""
    times = np.concatenate([trace.dispatched_at, trace.started_at, trace.finished_at, trace.applied_at, [0.0, time]])
    times = np.unique(times[(times >= 0) & (times <= time)])
    return [middle for low, high in pairwise(times) if low < (middle := (low + high) / 2) < high]


@st.composite
def traces(draw, scenario=None):
    fleet, _ = linked_fleet(draw, st.floats(0.2, 5.0))
    cap = draw(st.sampled_from([None, 1, 2]))
    tasks = draw(st.integers(1, fleet.clients * (cap or 3)))
    plan = replace(Plan.uniform(fleet, concurrency=tasks), cap=cap)
    seed = draw(st.integers(0, 99))
    return plan, simulate(fleet, plan, steps=60, start="even", seed=seed, engine="events", scenario=scenario)


def shown_as_it_was(trace, clients):
    """Compare a scene with its trace at every moment, and return it."""
    time = 0.8 * float(np.nanmax(trace.applied_at))
    scene = scene_of(trace, clients, time)
    left = np.where(np.isnan(trace.finished_at), trace.applied_at, trace.finished_at)
    sent = trace.dispatched_at
    started, left, ended = (np.nan_to_num(each, nan=np.inf) for each in (trace.started_at, left, trace.applied_at))
    for at in moments(trace, time):
        there, served = (sent <= at) & (at < left), (started <= at) & (at < left)
        assert value(scene.updates, at) == (trace.applied & (ended <= at)).sum()
        assert value(scene.idle, at) == clients - served.sum()
        assert value(scene.waiting, at) == (there & ~served).sum()
        tasks = [task for slot in scene.slots for task in slot if task.dispatched <= at < task.left]
        places = sorted((task.client, value(task.places, at)) for task in tasks)
        assert [client for client, _ in places] == sorted(trace.client[there])
        assert [client for client, place in places if place == SERVED] == sorted(trace.client[served])
        assert len(set(places)) == len(places)  # no two dots at one place
        in_flight = [[task for task in slot if task.dispatched <= at < task.ended] for slot in scene.slots]
        assert max(map(len, in_flight)) == 1  # a dot is one task at a time
        assert sum(map(len, in_flight)) == ((sent <= at) & (at < ended)).sum()
    return scene


@given(traces())
@settings(max_examples=25)
def test_a_scene_shows_what_the_trace_says_with_a_dot_for_each_task_in_flight(given):
    plan, trace = given
    assert len(shown_as_it_was(trace, int(trace.metadata["clients"])).slots) == plan.concurrency


@given(traces(Scenario(availability=(Availability("churn", on=3.0, off=1.0, leave="lose"),))))
@settings(max_examples=10)
def test_clients_that_leave_take_their_tasks_with_them(given):
    shown_as_it_was(given[1], int(given[1].metadata["clients"]))


def test_a_scene_by_hand():
    trace = Trace(
        client=[0, 0, 1, 1],
        prob=[0.5] * 4,
        dispatched_at=[0.0, 0.0, 2.0, 5.0],
        started_at=[0.0, 2.0, 2.0, np.nan],
        finished_at=[2.0, 5.0, 9.0, np.nan],
        applied_at=[2.0, 5.0, 9.0, np.nan],
        dispatched_step=[0, 0, 1, 2],
        applied_step=[0, 1, 2, -1],
        work=[1, 1, 1, 0],
        fate=[0, 0, 0, 1],
    )
    scene = scene_of(trace, 2, 8.0)
    assert scene.updates == [(0.0, 0), (2.0, 1), (5.0, 2)]
    assert scene.idle == [(0.0, 1), (2.0, 0), (5.0, 1)]
    assert scene.waiting == [(0.0, 1), (2.0, 0), (5.0, 1)]
    assert [[task.places for task in slot] for slot in scene.slots] == [
        [[(0.0, 0)], [(2.0, 0)]],
        [[(0.0, 1), (2.0, 0)], [(5.0, 1)]],
    ]
    assert scene.services == [[(0.0, 2.0), (2.0, 5.0)], [(2.0, 9.0)]]
    assert (scene.applied, scene.longest, scene.mean(scene.idle)) == (2, 1, 5 / 8)
    assert words(scene, 2) == "2 updates; 0.6 of 2 clients idle on average"
    assert "stroke-dashoffset:0.143" in drawn_text({"by hand": trace}, Fleet.of(all=(2, 1.0)), 8.0)  # 1 of 7 s is left


def drawn_text(traces, fleet=FLEET, time=10.0, screen=5.0):
    from sojourn.report.animation.animate import picture

    return picture(fleet, {title: scene_of(trace, fleet.clients, time) for title, trace in traces.items()}, screen)


def test_the_picture_is_one_file_without_scripts_or_links(tmp_path):
    trace = simulate(FLEET, PLAN, time=30, seed=1)
    title = '<script>alert(1)</script> & "co"'
    animate(FLEET, {title: trace}, tmp_path / "one.svg", time="10s", screen=5)
    root = ET.parse(tmp_path / "one.svg").getroot()
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags <= {"svg", "title", "desc", "style", "text", "tspan", "defs", "g", "rect", "circle", "path", "use"}
    assert {value for element in root.iter() for key, value in element.items() if "href" in key} == {"#digits"}
    assert title in [element.text for element in root.iter()]


def test_a_dot_is_at_its_client_even_if_most_of_the_time_it_is_on_its_way_back():
    fleet = replace(Fleet.of(only=(1, 10.0)), uplink_rate=[0.5])
    trace = simulate(fleet, Plan.uniform(fleet, concurrency=1), steps=30, start="even", seed=1)
    text = drawn_text({"links": trace}, fleet, 0.9 * float(np.nanmax(trace.applied_at)), 20.0)
    dot = next(line for line in text.splitlines() if "fill:#2c6e49" in line)
    scene = scene_of(trace, 1, 0.9 * float(np.nanmax(trace.applied_at)))
    assert sum(map(len, scene.slots)) > 20
    assert dot.count("translate(225.0px,292.0px)") >= sum(map(len, scene.slots))
    assert "takes no time" not in text


def test_a_task_between_two_others_is_unseen_until_it_is_sent():
    scenario = Scenario(dispatcher=Dispatcher("rounds", wait=2, interaction=1.0))
    trace = simulate(FLEET, replace(PLAN, concurrency=5), steps=60, seed=2, start="even", scenario=scenario)
    scene = scene_of(trace, 5, 0.5 * float(np.nanmax(trace.applied_at)))
    assert any(one.ended < two.dispatched for slot in scene.slots for one, two in pairwise(slot))
    assert "fill:#2c6e49;opacity:0" in drawn_text({"rounds": trace}, time=scene.time)


@pytest.mark.parametrize("screen", [1.0, 20.0, 600.0])
def test_keyframes_are_in_order_and_never_twice_at_one_time(screen):
    text = drawn_text(
        {"a": simulate(FLEET, PLAN, time=40, seed=3), "b": simulate(FLEET, replace(PLAN, cap=2), time=40)},
        screen=screen,
    )
    rules = [line for line in text.splitlines() if "@keyframes" in line]
    assert len(rules) > 30
    for rule in rules:
        places = [float(each) for part in rule.split("{", 2)[2].split("}") for each in _percents(part)]
        assert places == sorted(set(places)), rule
        assert places[0] == 0
        assert places[-1] <= 100


def _percents(part):
    return [each.rstrip("%") for each in part.split("{")[0].split(",") if each.endswith("%")]


def test_a_film_holds_each_look_as_long_as_it_was_told():
    film = Film(20.0)
    film.add([(0, 5, "opacity:0"), (5, 10, "opacity:1"), (10, 20, "opacity:1")], still="opacity:.5")
    assert film.rules == ["#a0{animation-name:a0;opacity:.5}@keyframes a0{0%,25%{opacity:0}25.002%,100%{opacity:1}}"]
    assert "prefers-reduced-motion: no-preference" in film.style()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fleet": Fleet.of(many=(21, 1.0))}, "at most 20 clients, got 21"),
        ({"fleet": Fleet.of(few=(2, 1.0))}, "the fleet has 2; give the fleet of the trace"),
        ({"traces": {}}, "shows 1 to 2 traces, got 0"),
        ({"time": math.inf}, "within the trace, which ends at"),
        ({"time": 0}, "time must be positive"),
        ({"screen": 0.5}, "screen must be 1 to 600 seconds, got 0.5"),
        ({"time": 10_000, "traces": {"long": LONG}}, "at most 3000 tasks, got 4007; choose a shorter"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(tmp_path, change, words):
    trace = simulate(FLEET, PLAN, steps=400, seed=1)
    given = {"fleet": FLEET, "traces": {"one": trace}, "path": tmp_path / "no.svg", "time": 10.0, **change}
    with pytest.raises(InvalidInput, match=words):
        animate(**given)
    assert not (tmp_path / "no.svg").exists()


def test_a_title_with_a_character_that_does_not_print_is_shown_by_its_code(tmp_path):
    animate(FLEET, {"a\x01\x1bb": LONG}, tmp_path / "a.svg", time=2.0)
    ET.parse(tmp_path / "a.svg")
    assert "a\\x01\\x1bb" in (tmp_path / "a.svg").read_text("utf-8")
