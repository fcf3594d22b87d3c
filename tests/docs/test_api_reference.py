"""The reference of the Python API: every public name is in it, and its docstring says what it is."""

from importlib import import_module
from typing import Any

import api_pages
import pytest

import sojourn

SHOWN = api_pages.public_names()
NAMES = [(page, name) for page, names in SHOWN.items() for name in names]


def value_of(name: str) -> Any:
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


def test_all_of_every_public_module_is_shown():
    shown = {name for _, name in NAMES}
    rooms = set(api_pages.ROOMS) | {"__version__"}
    assert {f"sojourn.{name}" for name in set(sojourn.__all__) - rooms} <= shown
    for room in api_pages.ROOMS:
        assert {f"sojourn.{room}.{name}" for name in import_module(f"sojourn.{room}").__all__} <= shown


@pytest.mark.parametrize(("page", "name"), NAMES, ids=[name for _, name in NAMES])
def test_a_public_name_is_documented_and_in_the_reference(page, name):
    value = value_of(name)
    assert isinstance(value, dict) or value.__doc__  # a table is described beside it
    assert f"\n::: {name}\n" in api_pages.pages()[page]


def test_a_name_is_shown_once():
    for names in SHOWN.values():
        assert len(set(names)) == len(names)
    text = "".join(api_pages.pages().values())
    assert text.count("\n::: sojourn.Fleet\n") == 1


def test_a_new_public_name_appears_without_being_listed(monkeypatch):
    monkeypatch.setattr(sojourn, "later", sojourn.analyze, raising=False)
    monkeypatch.setattr(sojourn, "__all__", [*sojourn.__all__, "later"])
    assert "\n## More\n\n::: sojourn.later\n" in api_pages.pages()["api/sojourn.md"]


def test_the_groups_name_only_what_exists():
    named = [name for names in api_pages.GROUPS.values() for name in names]
    assert set(named) <= set(sojourn.__all__)
    assert len(set(named)) == len(named)


def test_a_name_that_is_a_word_leads_to_the_glossary():
    page = api_pages.pages()["api/sojourn.md"]
    assert "\n## Fleets\n\nIn the glossary: [fleet](../glossary.md#fleet), [law](../glossary.md#law), " in page
    assert "#simulate" not in page
