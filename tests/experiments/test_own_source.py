"""A method of one's own that was edited is another one: what was trained before is neither found for it nor lost."""

import sys
from dataclasses import dataclass
from importlib import import_module

import pytest
from some_cells import fleet_file, small

from sojourn.errors import InvalidInput
from sojourn.experiments import own_source
from sojourn.experiments.cells import Cell, Cells
from sojourn.experiments.own_source import sources
from sojourn.experiments.train_cells import lots_of, train_lot
from sojourn.own_code import handed_over


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write modules that can be imported, and are not loaded."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(own_source, "_LOADED", {})

    def write(content: str, name: str = "edited_method.py") -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    yield write
    for name in [name for name in sys.modules if name.startswith("edited_")]:
        del sys.modules[name]


def hash_of(folder, **keys):
    return Cell("mine", small(fleet_file(folder), **keys)).hash


@pytest.mark.parametrize(
    "keys",
    [
        {"algorithm": "edited_method:Mine(size=3)"},
        {"algorithm": "asgrad(dispatch=edited_method:Mine)"},
        {"wrap": "topk(share=0.1); edited_method:Mine"},
        {"data": "edited_method:make"},
        {"law": "fast=edited_method:Law(a=1)"},
    ],
)
def test_edited_code_is_another_run_and_the_same_code_the_same(tmp_path, written, keys):
    written("STEP = 1")
    first = hash_of(tmp_path, **keys)
    written("STEP = 12")
    assert hash_of(tmp_path, **keys) != first
    written("STEP = 1")
    assert hash_of(tmp_path, **keys) == first
    assert "edited_method" not in sys.modules  # no code runs before its user is asked


def test_the_law_of_a_fleet_file_counts(tmp_path, written):
    source = "from dataclasses import dataclass\nfrom sojourn.laws.weibull import Weibull\n"
    source += "@dataclass(frozen=True)\nclass Mine(Weibull):\n    pass\n"
    fleet, found = tmp_path / "own.csv", []
    for more in ("", "# edited\n"):
        written(source + more)
        sys.modules.pop("edited_method", None)  # as in another program
        own_source._LOADED.clear()
        import_module("edited_method")
        fleet.write_text("name,count,rate,law\nfast,6,4,edited_method:Mine(shape=2)\n")
        found.append(Cell("mine", small(str(fleet))).hash)
    assert found[0] != found[1]


def test_a_package_counts_with_all_of_its_files_and_a_module_in_it_with_its_own(written):
    written("from .inner import Mine", "edited_package/__init__.py")
    written("STEP = 1", "edited_package/inner.py")
    written("STEP = 1", "edited_package/other.py")
    names = ["edited_package:Mine", "edited_package.inner:Mine"]
    before = [sources([name]) for name in names]
    written("STEP = 12", "edited_package/other.py")
    package, module = (sources([name]) for name in names)
    assert package != before[0]
    assert module == before[1]
    written("STEP = 12", "edited_package/inner.py")
    assert sources([names[1]]) != before[1]


@pytest.mark.parametrize("place", ["edited_home/inner/method.py", "edited_home/inner/deep/method.py"])
def test_code_in_folders_without_a_package_file_counts_too(written, place):
    name = place.removesuffix(".py").replace("/", ".")
    found = []
    for step in ("STEP = 1", "STEP = 12"):
        written(step, place)
        found.append(sources([f"{name}:Mine"]))
    assert found[0].keys() == {name}
    assert found[0] != found[1]
    import_module(name)
    assert sources([f"{name}:Mine"]) == found[1]


def test_a_worker_trains_no_code_that_was_edited_after_the_work_was_planned(tmp_path, written):
    written("from sojourn.algorithms import AsyncSGD as Mine")
    cell = Cell("mine", small(fleet_file(tmp_path), algorithm="edited_method:Mine"))
    (lot,) = lots_of([cell], Cells(tmp_path / "out"), 1)
    written("from sojourn.algorithms import AsyncSGD as Mine  # edited")
    own_source._LOADED.clear()  # as in another process
    ending = train_lot(lot, lambda: False, 1.0)[cell.hash]
    assert ending.word == "failed"
    assert "the code of edited_method must stay as it is while runs are trained" in ending.error
    assert not lot.members[0].folder.exists()
    assert "edited_method" not in sys.modules


@pytest.mark.parametrize(
    "name", ["numpy:mean", "json:loads", "sojourn.learning.models.mlp:MLP", "math:sqrt", "no_such:x"]
)
def test_what_is_installed_or_not_there_has_no_fingerprint(name):
    assert sources([name]) == {}


def test_an_object_counts_with_the_module_that_defines_it(written):
    written("class Mine:\n    size = 1\n")
    import edited_method

    text = handed_over(edited_method.Mine(), "edited-mine")
    assert sources([text]) == {text: sources(["edited_method:Mine"])["edited_method"]}
    assert sources([handed_over(list, "a-list")]) == {}


def test_an_object_that_the_program_defines_counts_by_itself(monkeypatch):
    @dataclass
    class Mine:
        size: int = 1

    monkeypatch.setattr(Mine, "__module__", "__main__")
    text = handed_over(Mine(), "mine-of-main")
    try:
        source = own_source.inspect.getsource(Mine)
    except (OSError, TypeError):  # before Python 3.13, classes of a program without a file
        assert sources([text]) == {}
    else:
        assert sources([text]) == {text: own_source.hashlib.sha256(source.encode()).hexdigest()}


def test_code_that_was_edited_after_it_had_been_loaded_is_refused(written):
    written("STEP = 1")
    sources(["edited_method:Mine"])
    import edited_method  # noqa: F401

    assert sources(["edited_method:Mine"])
    written("STEP = 12")
    with pytest.raises(InvalidInput, match=r"edited_method.py was edited after it had been loaded; start the program"):
        sources(["edited_method:Mine"])
