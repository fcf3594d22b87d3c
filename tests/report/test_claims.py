"""Claims: verdicts follow from conditions, and survive being written and read."""

from itertools import permutations, product

import pytest

from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.report.reproduction.claim import (
    CSV_ONLY,
    above,
    claim,
    judged,
    near,
    numbers,
    percents,
    plain,
    read_claims,
    write_claims,
)
from sojourn.report.reproduction.experiment import Experiment
from sojourn.report.reproduction.page import claims_table, update_page, whole_page


@pytest.mark.parametrize(
    ("holds", "verdict"),
    [
        ([], "not stated"),
        ([True], "agrees"),
        ([False], "disagrees"),
        ([None], "too close to call"),
        ([True, True], "agrees"),
        ([True, False], "partly"),
        ([True, None], "partly"),
        ([False, False], "disagrees"),
        ([False, None], "disagrees"),
        ([None, None], "too close to call"),
        ([True, False, None], "partly"),
    ],
)
def test_a_verdict_is_what_the_parts_say_in_whatever_order(holds, verdict):
    assert {judged(order) for order in permutations(holds)} == {verdict}


def test_a_verdict_depends_on_which_parts_there_are_and_not_on_how_many():
    for parts in product((True, False, None), repeat=4):
        assert judged(parts) == judged(list(dict.fromkeys(parts)))


def test_a_claim_of_which_nothing_is_confirmed_is_never_partly_right():
    for parts in product((False, None), repeat=4):
        assert judged(parts) in ("disagrees", "too close to call")


@pytest.mark.parametrize(
    ("low", "high", "confirmed"),
    [(1.0, 2.0, None), (1.1, 2.0, True), (0.0, 0.9, False), (0.0, 1.0, None), (float("nan"), float("nan"), None)],
)
def test_an_interval_is_above_a_value_below_it_or_holds_it(low, high, confirmed):
    assert above(low, high, 1.0) is confirmed


def test_near_counts_from_the_papers_number():
    assert near(48.8, 50, 0.05)
    assert not near(44.4, 55, 0.05)


def test_numbers_keep_their_digits():
    assert plain(1949.2078, 6) == "1949.21"
    assert plain(0.0730288, 3) == "0.0730"
    assert plain(0.0) == "0"
    assert plain(2.5e-7, 2) == "2.5e-07"
    assert plain(float("inf")) == "inf"
    assert numbers([45.8333, 2145.0]) == "45.83 / 2145"
    assert percents([0.55, -0.00001]) == "55.0% / 0.0%"


def test_claims_are_read_as_they_were_written(tmp_path):
    claims = [
        claim("delays, fast", "50 / 1950", "48.8 / 1949", holds=[True, False], rule="within 5%", note='a "note"; more'),
        claim("another", "figure only", "1", error="0.1"),
    ]
    write_claims(tmp_path / "claims.csv", claims)
    assert read_claims(tmp_path / "claims.csv") == claims


def test_a_verdict_that_there_is_not_is_refused(tmp_path):
    (tmp_path / "claims.csv").write_text("statement,paper,ours,error,verdict,rule,note\na,b,c,d,perhaps,,\n")
    with pytest.raises(UnreadableFile, match="cannot be read; give --overwrite"):
        read_claims(tmp_path / "claims.csv")


def nothing(folder, fast, watch):
    return []


def test_a_page_keeps_what_is_outside_the_markers(tmp_path):
    page, one = tmp_path / "page.md", Experiment("one", "One thing", "figure 1", nothing)
    page.write_text("before\n<!-- reproduce one -->\nold\n<!-- end of one -->\nafter\n")
    found = [(one, [claim("a | b", "1", "1", holds=[True], rule="equal")])]
    update_page(page, found, fast=True)
    text = page.read_text()
    assert text.startswith(
        "before\n<!-- reproduce one -->\nOne thing: figure 1. Made by `sojourn reproduce one --fast`."
    )
    assert "| a \\| b | 1 | 1 | agrees |" in text
    assert "Rules, notes and standard errors: [one.csv](results/page/one.csv)." in text
    beside = (tmp_path / "results" / "page" / "one.csv").read_text()
    assert beside == "statement,paper,ours,error,verdict,rule,note\na | b,1,1,exact,agrees,equal,\n"
    assert text.endswith("<!-- end of one -->\nafter\n")
    assert "old" not in text
    update_page(page, found, fast=True)
    assert page.read_text() == text
    assert claims_table(found[0][1]) in whole_page(found, fast=True)


def test_a_page_has_a_row_for_each_part_of_a_claim_and_the_verdict_once():
    made = claim(
        "long", "50 / 1950", "54.74 / 1942", error="0.15 / 0.19", holds=[True], short="mean", parts="fast / slow"
    )
    plain = claim(
        "a second one", "massive", "free 35.8% / 48.6%; cut 8.5% / 33.0%", holds=[True], brief="8.5% to 48.6%"
    )
    assert claims_table([made, plain]).splitlines() == [
        "| claim | of | paper | ours | verdict |",
        "|---|---|---|---|---|",
        "| mean | fast | 50 | 54.74 ± 0.15 | agrees |",
        "|  | slow | 1950 | 1942 ± 0.19 |  |",
        "| a second one |  | massive | 8.5% to 48.6% | agrees |",
    ]


def test_what_is_for_the_csv_file_alone_is_not_on_the_page(tmp_path):
    shown, hidden = claim("shown", "1", "1"), claim("hidden", "-", "2", short=CSV_ONLY)
    assert claims_table([shown, hidden]) == claims_table([shown])
    assert "of" not in claims_table([shown]).splitlines()[0].split(" | ")
    write_claims(tmp_path / "claims.csv", [shown, hidden])
    assert read_claims(tmp_path / "claims.csv") == [shown, hidden]


def test_values_that_are_not_one_for_each_part_stand_in_the_first_row():
    made = claim("a", "massive", "1 / 2", holds=[False], parts="fast / slow")
    assert claims_table([made]).splitlines()[2:] == ["| a | fast | massive | 1 | disagrees |", "|  | slow |  | 2 |  |"]


def test_a_page_without_the_markers_is_refused(tmp_path):
    (tmp_path / "page.md").write_text("nothing")
    with pytest.raises(InvalidInput, match="has no place for one; write the lines <!-- reproduce one -->"):
        update_page(tmp_path / "page.md", [(Experiment("one", "", "", nothing), [])], fast=False)
