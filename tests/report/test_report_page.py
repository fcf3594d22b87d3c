"""Report pages: their numbers are those of the files, names stay text, and a page is one small file."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from reading_pages import read

from sojourn import (
    Dispatcher,
    Fleet,
    Law,
    Plan,
    Scenario,
    Trace,
    analyze,
    fit,
    goal,
    make_plan,
    measure,
    observe,
    simulate,
    simulate_to_file,
)
from sojourn import trace as trace_file
from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.report.page import drawings, grouping
from sojourn.report.page import of_trace as of_trace_part
from sojourn.report.page.digest import EDGES
from sojourn.report.page.parts import Part, Section, Shown
from sojourn.report.page.svg import page_style
from sojourn.report.page.write import MARK, MOST_BYTES, page, parts_of, write_report

BAD = 'slow <script>alert("x")</script> $5 & #1b6ca8'
FLEET = Fleet(("fast", BAD), np.array([4, 2]), np.array([4.0, 1.0]), data_size=np.array([10.0, 40.0]))
PLAN = Plan.uniform(FLEET, 12)


@pytest.fixture(scope="module")
def trace():
    return simulate(FLEET, PLAN, 6000, start="even", seed=2)


@pytest.fixture(scope="module")
def of_trace(trace):
    return read(trace.report(fleet=FLEET, plan=PLAN).html)


def number(text):
    return float(text.replace(",", "").rstrip("%"))


def test_the_numbers_on_the_page_are_those_of_the_trace(trace, of_trace):
    group = FLEET.group_of_client[trace.client[trace.applied]]
    for at, name in enumerate(FLEET.name):
        row = of_trace.row("Staleness by group", name)
        stale = trace.staleness[group == at]
        assert number(row[2]) == stale.size
        assert number(row[3]) == pytest.approx(stale.mean(), rel=1e-5)
        assert number(row[6]) == stale.max()
        fates = of_trace.row("Tasks by group", name)
        mine = trace.fate[FLEET.group_of_client[trace.client] == at]
        assert [number(one) for one in fates[1:]] == [(mine == fate).sum() for fate in (0, 4, 2, 3, 1)]
        share = of_trace.row("Shares by group", name)
        assert number(share[1]) == pytest.approx(100 * stale.size / 6000, abs=0.05)
        assert share[2] == "33.3%" if at == 0 else "66.7%"
    seen = observe(trace, FLEET, PLAN)
    for one in seen.figures():
        row = of_trace.row("Promised and observed", one.figure, one.group)
        assert number(row[2]) == pytest.approx(one.given, rel=1e-5)
        assert number(row[3]) == pytest.approx(one.fitted, rel=1e-5)
        assert row[4].startswith(f"{one.observed:.4g}"[:4])
        assert number(row[5]) == pytest.approx(one.z, rel=1e-2)


def test_the_answer_comes_first_and_judges_the_promise(trace, of_trace):
    assert of_trace.answer.startswith("6 clients with 12 tasks in flight brought 6,000 updates in ")
    assert "The promise was kept" in of_trace.answer
    faster = replace(FLEET, rate=np.array([8.0, 1.0]))
    wrong = simulate(FLEET, Plan.by_speed(FLEET, 12), 6000, start="even", seed=2)
    told = read(wrong.report(fleet=faster, plan=PLAN).html)
    assert "The run is not as theory says in " in told.answer
    assert "need not be a broken promise: theory was asked about another fleet or plan, see the notes" in told.answer
    unnamed = replace(wrong, metadata={"concurrency": 12, "clients": 6})  # nothing says that the plan is another one
    assert "The promise was not kept in " in read(unnamed.report(fleet=FLEET, plan=PLAN).html).answer


def test_a_run_that_is_too_short_is_not_judged(trace):
    early = trace.applied_step < 60
    short = Trace(**{key: value[early] for key, value in trace._table().items()}, metadata=trace.metadata)
    told = read(short.report(fleet=FLEET, plan=PLAN).html)
    assert "The run is too short to say whether the promise was kept" in told.answer
    assert "None of the figures can be judged: the run is too short, about " in told.text
    assert not [label for label in told.labels if "from what was promised" in label]


def test_a_run_that_theory_does_not_describe_has_no_broken_promise():
    plan = Plan.uniform(FLEET, 4)
    rounds = simulate(FLEET, plan, 4000, start="even", seed=2, scenario=Scenario(Dispatcher("rounds")))
    told = read(rounds.report(fleet=FLEET, plan=plan).html)
    assert "The promise was not kept" not in told.answer
    assert "need not be a broken promise: the theory describes another system, see the notes below" in told.answer


def test_the_caption_of_the_figure_counts_also_what_is_not_drawn():
    groups = tuple(f"g{at}" for at in range(12))
    fleet = Fleet(groups, np.ones(12, int), np.linspace(1, 2, 12))
    plan = Plan.uniform(fleet, 24)
    seen = observe(simulate(fleet, plan, 6000, seed=1), fleet, plan)
    tally = seen.tally
    off = tally.staleness.value.copy()
    off[11] += 20 * tally.staleness.error[11]  # the last figure of all
    far = replace(seen, tally=replace(tally, staleness=replace(tally.staleness, value=off)))
    told = read(far.report().html)
    assert "The promise was not kept in 1 of 25 judged figures: staleness of g11 lies " in told.answer
    (caption,) = [one for one in told.captions if one.startswith("Each dot is a figure")]
    assert "staleness of g11 lies further off than chance explains; the 24 furthest off are drawn." in caption


def test_the_answer_counts_the_figures_that_are_judged(of_trace):
    rows = next(rows for name, rows in of_trace.tables.items() if name.startswith("Promised and observed"))
    judged = [row for row in rows[1:] if row[:2] != ["staleness", "all"]]  # after the heads
    assert f"none of {len(judged)} judged figures" in of_trace.answer
    assert "The mean staleness of all updates is not judged" in of_trace.text


def test_a_fitted_law_has_four_digits():
    fleet = Fleet(("all",), np.array([5]), np.array([1.0]), law=(Law.parse("gamma(shape=3)"),))
    plan = Plan.uniform(fleet, 5, cap=1)
    trace = simulate(fleet, plan, 2000, seed=0)
    law = read(trace.report(fleet=fleet, plan=plan).html).row("The fleet as the trace shows it", "all")[4]
    assert re.fullmatch(r"gamma\(shape=[\d.]{1,5}\)", law)


def test_a_name_with_html_in_it_stays_text(trace, of_trace):
    page = trace.report(fleet=FLEET, plan=PLAN).html
    assert "<script>alert" not in page
    assert of_trace.tags.count("script") == 1  # the theme
    assert BAD in of_trace.text
    assert any(BAD in label for label in of_trace.labels)


def test_a_trace_whose_clock_begins_in_1970_is_shown_from_its_first_task_on(trace, of_trace):
    shift = 1.7e9
    times = {key: getattr(trace, key) + shift for key in ("dispatched_at", "started_at", "finished_at", "applied_at")}
    part = parts_of(replace(trace, **times), FLEET, PLAN)[0]
    found = read(page([part]).html)
    assert part.name == "simulated Trace of 6,012 tasks, 6,000 applied within 1095.78 seconds"
    assert re.search(r"in the first [\d.]+ (s|min)\.", of_trace.captions[0])
    assert (found.captions[0], found.labels[0]) == (of_trace.captions[0], of_trace.labels[0])
    whole = float(np.nanmax(trace.applied_at) - trace.dispatched_at.min())
    for one in part.sections[0].figures:
        begin, end = one.figure.axes[0].get_xlim()
        assert begin == 0
        assert end <= whole * 1.001


def test_a_page_refers_to_nothing_outside_and_every_id_is_unique(trace, of_trace):
    page = trace.report(fleet=FLEET, plan=PLAN).html
    assert "http://" not in page
    assert "https://" not in page
    assert [one for one in of_trace.refers if not one.startswith(("#", "data:,"))] == []
    assert len(set(of_trace.ids)) == len(of_trace.ids)
    assert {one[1:] for one in of_trace.refers if one.startswith("#")} <= set(of_trace.ids)


def test_one_thing_is_said_as_one():
    fleet = Fleet(("all",), np.array([1]), np.array([1.0]))
    told = read(measure(fleet, Plan.uniform(fleet, 1), 1, seed=1).report().html)
    assert "1 update of 1 client with 1 task in flight was simulated." in told.answer


@pytest.mark.slow
def test_every_figure_has_words_and_follows_the_colours_of_the_page(trace, of_trace):
    assert len(of_trace.labels) == len(of_trace.captions) >= 7
    assert all(len(one) > 20 for one in of_trace.labels + of_trace.captions)
    page = trace.report(fleet=FLEET, plan=PLAN).html
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert all("var(--text)" in one for one in drawings)
    assert not {found for one in drawings for found in re.findall(r"(?:fill|stroke): (#\w+)", one)}


@pytest.mark.slow
def test_a_trace_without_its_fleet_is_shown_by_client_or_by_speed(trace):
    few = read(trace.report().html)
    assert number(few.row("Staleness by group", "client 5")[2]) == (trace.client[trace.applied] == 5).sum()
    fleet = Fleet.of_rates([8.0, 1.0] * 10)
    mixed = simulate(fleet, Plan.uniform(fleet, 30), 20_000, seed=1)
    told = read(mixed.report().html)
    group = mixed.client[mixed.applied] % 2
    for at, name in enumerate(("class 1", "class 2")):
        row = told.row("Staleness by group", name)
        assert number(row[1]) == 10
        assert number(row[3]) == pytest.approx(mixed.staleness[group == at].mean(), rel=1e-5)
    assert "The promise was kept" in told.answer
    worst = told.row("Clients with the stalest updates", "client")
    assert worst[:2] == ["client", "group"]


@pytest.mark.slow
def test_many_groups_are_shown_as_classes_by_speed():
    fleet = Fleet.of_rates(np.repeat([1.0, 2.0, 4.0], 8))
    assert fleet.groups == 24
    trace = simulate(fleet, Plan.uniform(fleet, 24), 5000, seed=1)
    told = read(trace.report(fleet=fleet).html)
    fastest = np.isin(trace.client[trace.applied], np.arange(16, 24))
    assert number(told.row("Staleness by group", "class 1")[2]) == fastest.sum()
    assert "The 24 groups of the fleet are shown as 3 classes by speed" in told.text


def test_a_trace_without_an_update_is_said_to_have_none(trace):
    empty = Trace(**{key: value[:0] for key, value in trace._table().items()}, metadata=trace.metadata)
    assert "no update was applied" in read(empty.report(fleet=FLEET).html).answer


def test_a_plan_shows_its_promises_and_the_other_policies(tmp_path):
    found = make_plan(FLEET, time=100)
    found.save(tmp_path / "plan.json")
    write_report([tmp_path / "plan.json"], tmp_path / "page.html")
    told = read((tmp_path / "page.html").read_text("utf-8"))
    assert f"{found.plan.promises['throughput']:.4g} updates per second" in told.answer
    for row in found.rows:
        shown = told.row("What each policy achieves", row.policy.name)
        assert number(shown[2]) == pytest.approx(row.updates, rel=1e-5)
    assert all(why in told.text for why in found.why)
    again = Plan.load(tmp_path / "plan.json")
    assert again.hash == found.plan.hash
    direct = read(found.report().html)
    assert direct.row("In the long run", "fast")
    assert direct.row("What each policy achieves", found.rows[0].policy.name)


def test_a_plan_by_hand_promises_nothing():
    assert "It was written by hand: it promises nothing." in read(PLAN.report().html).answer


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: make_plan(Fleet.of(fast=(9, 8.0), slow=(1, 1.0)), goal(time=100)), "Other plans beside it"),
        (lambda: analyze(FLEET, PLAN), "updates per second in the long run"),
        (lambda: measure(FLEET, PLAN, 4000, seed=1), "4,000 updates of 6 clients"),
        (lambda: observe(simulate(FLEET, PLAN, 3000, seed=1), FLEET, PLAN), "Promised and observed"),
        (lambda: fit(simulate(FLEET, PLAN, 3000, seed=1), FLEET), "Its table"),
        (lambda: FLEET, "Its table"),
    ],
    ids=["planned", "analysis", "summary", "observation", "fit", "fleet"],
)
def test_every_result_has_a_page(made, words):
    result = made()
    report = result.report()
    assert words in read(report.html).text
    assert report.path is None
    assert report._repr_html_().startswith("<iframe")
    assert 'srcdoc="&lt;!doctype' in report._repr_html_()


def test_a_report_is_written_only_over_a_report(tmp_path):
    place = tmp_path / "page.html"
    first = PLAN.report(place)
    assert first.path == place
    assert f'content="{MARK}"' in place.read_text("utf-8")
    PLAN.report(place)
    place.write_text("mine")
    with pytest.raises(InvalidInput, match="is no report of sojourn"):
        PLAN.report(place)
    assert place.read_text() == "mine"
    PLAN.report().save(place, overwrite=True)
    assert place.read_text("utf-8").startswith("<!doctype html>")


def test_a_result_in_python_writes_its_figures_too(tmp_path):
    found = measure(FLEET, PLAN, 2000, seed=1)
    report = found.report(tmp_path / "page.html", figures=tmp_path / "figures")
    written = sorted((tmp_path / "figures").iterdir())
    assert sorted(report.figures) == written
    assert {one.suffix for one in written} == {".svg", ".pdf"}
    assert found.report().figures == ()


@pytest.mark.slow
def test_figures_are_written_as_svg_and_pdf(trace, tmp_path):
    trace.save(tmp_path / "trace.parquet")
    PLAN.save(tmp_path / "plan.json")
    paths = [tmp_path / "trace.parquet", tmp_path / "trace.parquet", tmp_path / "plan.json"]
    written = write_report(paths, tmp_path / "page.html", tmp_path / "figures", fleet=FLEET)
    names = {path.name for path in written.figures}
    assert {"1-timeline.svg", "1-timeline.pdf", "2-staleness-1.svg"} <= names
    assert names == {path.name for path in (tmp_path / "figures").iterdir()}
    assert all(path.stat().st_size > 500 for path in written.figures)
    told = read((tmp_path / "page.html").read_text("utf-8"))
    assert number(told.row("The same numbers of each", str(paths[0]))[2]) == 6000


def test_a_page_that_would_be_too_large_leaves_its_last_figures_out():
    def large(seed):
        with page_style() as plt:
            figure, axis = plt.subplots(figsize=(4, 3), layout="constrained")
            axis.plot(*np.random.default_rng(seed).random((2, 40_000)))
        return Shown("large", figure, "points all over the place", "points all over the place")

    section = Section("Large", figures=[large(seed) for seed in range(4)])
    html = page([Part("x", "y", ["z"], sections=[section])]).html
    assert len(html.encode()) < MOST_BYTES
    assert 1 <= html.count("<svg") < 4
    assert html.count("This figure is left out") == 4 - html.count("<svg")


@pytest.mark.parametrize(("many", "way"), [(1, "shorten the names in it"), (2, "report fewer things at a time")])
def test_a_page_that_is_too_large_without_any_figure_is_refused(many, way):
    parts = [Part("x", "y", ["z" * (MOST_BYTES // many)])] * many
    with pytest.raises(InvalidInput, match=rf"more than 1,900,000 bytes without any figure \(1,9.*; {way}"):
        page(parts)


def test_captions_count_where_figures_are_left_out():
    figures = [Shown("f", drawings.shares(["a"], [("b", np.ones(1))], "c"), "d", "e" * 100_000) for _ in range(20)]
    with pytest.raises(InvalidInput, match="without any figure"):
        page([Part("x", "y", ["z"], sections=[Section("many", figures=figures)])])


def test_long_names_are_shortened_in_sentences(trace):
    fleet = replace(FLEET, name=("fast" * 3000, "slow" * 3000))
    plan = Plan.uniform(fleet, 12)
    (part,) = parts_of(trace, fleet=fleet, plan=plan)
    others = [parts_of(thing)[0] for thing in (analyze(fleet, plan), measure(fleet, plan, 4000, seed=1))]
    for one in (part, *others):
        figures = [shown for section in one.sections for shown in section.figures]
        said = [*one.answer, *(text for section in one.sections for text in (*section.said, *section.notes))]
        said += [text for shown in figures for text in (shown.alt, shown.caption)]
        assert max(map(len, said)) < 1000
    assert "(slowslow" in part.answer[0]
    assert " ... " in part.answer[0]


def test_every_seed_of_a_run_counts_as_a_thing(tmp_path):
    for name in ("first", "second"):
        for seed in range(21):
            (tmp_path / name / f"seed-{seed}").mkdir(parents=True)
            (tmp_path / name / f"seed-{seed}" / "config.json").write_text("{}")
        (tmp_path / name / "seeds.json").write_text(json.dumps({"seeds": list(range(21))}))
    with pytest.raises(InvalidInput, match="a page can report 1 to 40 things, got 42; write several pages"):
        write_report([tmp_path / "first", tmp_path / "second"], tmp_path / "page.html")


def test_what_cannot_be_reported_is_refused_in_a_sentence(trace, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "other.json").write_text(json.dumps({"a": 1}))
    (tmp_path / "note.txt").write_text("hello")
    trace.save(tmp_path / "whole.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "whole.parquet").read_bytes()[:5000])
    for name, words in (
        ("missing", "does not exist; name the folder of a run"),
        ("empty", "is empty; name"),
        ("other.json", "is nothing that can be reported; name"),
        ("note.txt", "is nothing that can be reported; name"),
        ("cut.parquet", "it may be truncated"),
    ):
        with pytest.raises((InvalidInput, UnreadableFile), match=words):
            parts_of(tmp_path / name)


@pytest.mark.slow
def test_a_fleet_of_10_000_clients_and_a_long_trace_fit_on_a_small_page(tmp_path):
    rates = np.exp(np.random.default_rng(1).normal(0, 1, 10_000))
    fleet = Fleet.of_rates(rates)
    trace = simulate(fleet, Plan.uniform(fleet, 10_000), 300_000, seed=1)
    trace.save(tmp_path / "trace.parquet")
    for given in (fleet, None):
        report = trace.report(fleet=given)
        assert len(report.html.encode()) < 1_000_000
        told = read(report.html)
        counts = [
            number(row[2]) for name, rows in told.tables.items() if name.startswith("Staleness by") for row in rows[1:]
        ]
        assert sum(counts) == 300_000


def test_a_trace_file_is_read_once_for_the_whole_page(tmp_path, monkeypatch):
    simulate_to_file(FLEET, PLAN, 3000, tmp_path / "trace.parquet", start="even", seed=1)
    read, piece_of = [], trace_file._piece
    monkeypatch.setattr(grouping.Grouped.pieces, "__defaults__", (701,))
    monkeypatch.setattr(
        trace_file, "_piece", lambda path, rows, facts: read.append(len(rows)) or piece_of(path, rows, facts)
    )
    (part,) = parts_of(tmp_path / "trace.parquet", fleet=FLEET, plan=PLAN)
    assert "Promised and observed" in [section.title for section in part.sections]
    assert sum(read) == 3012
    assert len(read) > 4


def test_a_page_of_a_file_read_in_pieces_has_the_numbers_of_the_trace_in_memory(tmp_path, monkeypatch, trace, of_trace):
    trace.save(tmp_path / "trace.parquet")
    monkeypatch.setattr(grouping.Grouped.pieces, "__defaults__", (701,))
    of_file = read(page(parts_of(tmp_path / "trace.parquet", fleet=FLEET, plan=PLAN)).html)
    assert of_file.answer == of_trace.answer
    for caption in ("Promised and observed", "The fleet as the trace shows it", "Staleness by group", "Tasks by group"):
        (mine,) = [rows for name, rows in of_file.tables.items() if name.startswith(caption)]
        (other,) = [rows for name, rows in of_trace.tables.items() if name.startswith(caption)]
        assert mine == other


def test_the_groups_of_a_trace_without_metadata_are_those_of_the_fleet(trace):
    told = read(replace(trace, metadata={}).report(fleet=FLEET).html)
    assert told.row("Staleness by group", "fast")
    assert "It is not compared with theory; the notes below say why." in told.answer
    assert "does not say how many tasks were in flight; give its plan (--plan)" in told.text


@pytest.mark.parametrize("facts", [{"leave": 5}, {"local_steps": "x"}, {"recorded_until": "x"}, {"clients": 10**12}])
@pytest.mark.parametrize("fleet", [None, FLEET])
def test_metadata_that_cannot_be_read_end_the_comparison_and_not_the_page(facts, fleet):
    short = simulate(FLEET, PLAN, 300, seed=2)
    strange = replace(short, metadata={**short.metadata, **facts})
    assert "6 clients with 12 tasks in flight brought 300 updates" in read(strange.report(fleet=fleet).html).answer


def drawn(trace, monkeypatch):
    """The updates per second that the page of a trace draws."""
    found, draw = [], drawings.over_time

    def note(edges, parts, label, *more):
        found.extend(values for name, values, _ in parts if name == "updates per second")
        return draw(edges, parts, label, *more)

    monkeypatch.setattr(drawings, "over_time", note)
    trace.report(fleet=FLEET, plan=PLAN)
    return found[0]


def test_the_legend_of_shares_covers_no_bar():
    figure = drawings.shares(["a", "b"], [("share of updates", np.array([0.5, 0.5])), ("share", np.full(2, 0.5))], "")
    figure.canvas.draw()
    (axis,) = figure.axes
    legend = axis.get_legend().get_window_extent()
    assert legend.y0 >= axis.get_window_extent().y1 - 1
    assert legend.y1 <= figure.bbox.y1


def test_updates_per_second_are_drawn_where_most_bins_are_empty(monkeypatch):
    short = simulate(FLEET, PLAN, 40, seed=2)
    flow = drawn(short, monkeypatch)
    assert (flow == 0).mean() > 0.5
    assert np.median(flow[flow > 0]) > 1.0


@pytest.mark.parametrize("counts", [{130: 99, 200: 1}, {3: 10}, {10**6: 5}])
def test_so_many_percent_of_the_updates_are_at_most_what_is_said(counts):
    values = np.repeat(list(counts), list(counts.values()))
    told = of_trace_part._quantile(np.histogram(values, EDGES)[0], 0.95)
    assert (values <= told).mean() >= 0.95
    assert told <= 1.05 * np.quantile(values, 0.95, method="higher")


def test_rows_that_a_fit_refuses_end_the_comparison_and_not_the_page(trace):
    finished = trace.finished_at.copy()
    finished[4000] = trace.started_at[4000] - 1.0
    told = read(replace(trace, finished_at=finished).report(fleet=FLEET, plan=PLAN).html)
    assert "6,000 updates" in told.answer
    assert "The comparison with theory is left out: finished_at must not be before started_at" in told.text
