"""Folders are made when they are needed, taken by one process, and put in place as a whole."""

import pytest

from sojourn import files
from sojourn.errors import UnwritableFile
from sojourn.files import Busy
from sojourn.folders import check_folder, filled, made, taken


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("place", ["new", "new/deep", "."])
def test_looking_at_a_place_for_a_folder_changes_nothing(tmp_path, place):
    check_folder(tmp_path / place)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("place", "sentence"),
    [("file", "it is a file; name a folder"), ("file/deep", "file is a file; name a folder")],
)
def test_a_place_where_no_folder_can_be_is_refused(tmp_path, place, sentence):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnwritableFile, match=sentence):
        check_folder(tmp_path / place)
    with pytest.raises(UnwritableFile, match="cannot write to"), made(tmp_path / place):
        pass


def fail_in(context):
    with context:
        raise ZeroDivisionError


def test_folders_go_away_again_when_nothing_was_put_into_them(tmp_path):
    for context in (made(tmp_path / "a" / "b"), taken(tmp_path / "a" / "b")):
        with pytest.raises(ZeroDivisionError):
            fail_in(context)
        assert names(tmp_path) == []
    (tmp_path / "a").mkdir()
    with pytest.raises(ZeroDivisionError):
        fail_in(taken(tmp_path / "a" / "b"))
    assert names(tmp_path) == ["a"]  # it was there before
    assert names(tmp_path / "a") == []


def fill(place, content, error=None):
    with filled(place) as work:
        (work / "data.txt").write_text(content)
        if error is not None:
            raise error


def test_a_folder_appears_when_it_is_filled_and_replaces_what_was_there(tmp_path):
    fill(tmp_path / "one", "first")
    fill(tmp_path / "one", "second")
    assert (tmp_path / "one" / "data.txt").read_text() == "second"
    with pytest.raises(ZeroDivisionError):
        fill(tmp_path / "one", "third", ZeroDivisionError())
    assert (tmp_path / "one" / "data.txt").read_text() == "second"
    assert names(tmp_path) == ["one"]


def test_two_processes_do_not_fill_one_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PATIENCE", 0.0)
    with (
        filled(tmp_path / "one"),
        pytest.raises(Busy, match="one is being written by another process; wait for it to end"),
    ):
        fill(tmp_path / "one", "second")


def test_what_a_killed_process_left_is_cleared_away_by_the_next(tmp_path):
    (tmp_path / ".one.partial").mkdir()
    (tmp_path / ".one.partial" / "half.txt").write_text("half")
    (tmp_path / ".one.lock").write_text("")
    fill(tmp_path / "one", "whole")
    assert names(tmp_path) == ["one"]
    assert names(tmp_path / "one") == ["data.txt"]


def test_what_was_there_comes_back_after_a_kill_between_the_two_renames(tmp_path):
    fill(tmp_path / ".one.old", "old")
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path / "one", "new", KeyboardInterrupt())
    assert names(tmp_path) == ["one"]
    assert (tmp_path / "one" / "data.txt").read_text() == "old"
