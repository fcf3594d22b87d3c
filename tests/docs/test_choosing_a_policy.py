"""The evidence on the page that helps to choose a policy is what the kept results of training say."""

import csv
import re
from collections import defaultdict
from statistics import fmean

import pytest
from console import HOME

PAGE = (HOME / "docs" / "choosing-a-policy.md").read_text("utf-8")
POLICIES = {
    "default: nobody waits, correction 1/2": "finisher, c = 1/2",
    "nobody waits, correction 0": "finisher, c = 0",
    "nobody waits, correction 1": "finisher, c = 1",
    "FedBuff 10": "FedBuff 10",
    "FedBuff 3, correction 1/2": "FedBuff 3, c = 1/2",
    "idle clients, half as many tasks": "idle C = 50, c = 1/2",
    "smaller steps for stale updates": "delay-adaptive",
    "drawn by the root of speed": "root of speed",
    "AsyncSGD: drawn uniformly": "AsyncSGD",
    "the paper's plan (bound)": "the bound's plan",
}
COLUMNS = ("data at random", "slow hold some alone", "and are seldom heard", "all equally fast")


def column_of(cell):
    if "homogeneous" in cell:
        return COLUMNS[3]
    if "by-speed" in cell:
        return COLUMNS[2] if "one-slow-group" in cell or "lognormal-2" in cell else COLUMNS[1]
    return COLUMNS[0]


@pytest.fixture(scope="module")
def cells():
    """Mean loss and worst client of each policy, by column and cell."""
    found = defaultdict(lambda: defaultdict(dict))
    with (HOME / "docs" / "results" / "does-it-pay" / "cells.csv").open() as file:
        for row in csv.DictReader(file):
            small = row["kind"] == "final" and not row["cell"].startswith("cifar")
            if small and "constant" not in row["policy"]:
                means = {key: fmean(map(float, row[key].split())) for key in ("loss", "worst")}
                found[column_of(row["cell"])][row["cell"]][row["policy"]] = means
    return found


def table_of(kind):
    text = PAGE.split(f"<!-- evidence: {kind} -->")[1].split("\n\n")[1]
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    assert tuple(head[1:]) == COLUMNS
    return {row[0]: dict(zip(COLUMNS, row[1:], strict=True)) for row in rows}


def test_losses_over_the_best_are_those_of_the_kept_results(cells):
    for name, row in table_of("loss").items():
        for column, shown in row.items():
            ratios = [
                cell[POLICIES[name]]["loss"] / min(one["loss"] for one in cell.values())
                for cell in cells[column].values()
                if POLICIES[name] in cell
            ]
            assert shown == (f"{fmean(ratios):.2f}" if ratios else ""), (name, column)


def test_worst_clients_are_those_of_the_kept_results(cells):
    for name, row in table_of("worst").items():
        for column, shown in row.items():
            values = [cell[POLICIES[name]]["worst"] for cell in cells[column].values() if POLICIES[name] in cell]
            assert shown == (f"{fmean(values):.0%}" if values else ""), (name, column)


FLEETS = {
    "90 at speed 8, 10 at speed 1/4": "one-slow-group",
    "50 at speed 8, 50 at speed 1": "8to1",
    "lognormal speeds, sigma 1": "lognormal-1",
    "lognormal speeds, sigma 2": "lognormal-2",
    "50 at speed 20, 50 at speed 1": "20to1",
}


def test_what_uniform_draws_cost_on_each_fleet_is_what_the_kept_results_say(cells):
    known = {name: found for column in COLUMNS[:3] for name, found in cells[column].items()}
    over = {name: one["AsyncSGD"]["loss"] / one["finisher, c = 1/2"]["loss"] for name, one in known.items()}
    rows = PAGE.split("<!-- evidence: uniform -->")[1].split("\n\n")[1].splitlines()[2:]
    told = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    mine = {name: [value for cell, value in over.items() if f"-{key}-" in cell] for name, key in FLEETS.items()}
    assert told == [[name, str(len(values)), f"{fmean(values):.2f}"] for name, values in mine.items()]
    assert sum(map(len, mine.values())) == len(over) == 50
    words = " ".join(PAGE.split())
    assert f"uniform draws end at {fmean(over.values()):.2f} times the loss of the default on average" in words
    assert f"{min(over.values()):.2f} times in the best cell and at {max(over.values()):.2f} times" in words


def test_the_number_of_cells_is_told_as_it_is(cells):
    table = PAGE.split("| column | cells | what they are |")[1].split("\n\n")[0]
    told = dict(re.findall(r"^\| ([a-z ]+) \| (\d+) \|", table, re.MULTILINE))
    assert told == {column: str(len(cells[column])) for column in COLUMNS}
    assert sum(map(int, told.values())) == 58
