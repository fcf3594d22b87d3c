"""Files are written whole or not at all, and read with one sentence about what is wrong."""

import ast
import errno
import json
import os
import re
import stat
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from sojourn import files
from sojourn.errors import InvalidInput, UnreadableFile, UnwritableFile
from sojourn.files import (
    Busy,
    alone,
    busy,
    check_place,
    no_links,
    read_bytes,
    read_json,
    read_text,
    read_toml,
    tidy,
    write_json,
    write_text,
    writing,
    written,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_gets_its_name_when_it_is_whole(tmp_path):
    path = tmp_path / "file.txt"
    with written(path) as partial:
        partial.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert names(tmp_path) == ["file.txt"]


def test_an_error_leaves_the_file_that_was_there_and_nothing_else(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def half() -> None:
        with written(path) as partial:
            partial.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file.txt"]


def test_a_disk_that_is_full_leaves_the_file_that_was_there(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    code = f"""
        import resource
        from sojourn.errors import UnwritableFile
        from sojourn.files import write_text
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            write_text({str(path)!r}, "x" * 100_000, "plan file")
        except UnwritableFile as error:
            print(error)
    """
    said = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert said.stdout == f"cannot write plan file {path}: File too large; name another place\n"
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file.txt"]


def test_a_disk_without_room_is_no_reason_for_another_place(tmp_path):
    path = tmp_path / "checkpoint"
    with pytest.raises(UnwritableFile) as caught, writing(path, "checkpoint"):
        raise OSError(errno.ENOSPC, "No space left on device")
    way_out = "No space left on device; make room on that disk; a run goes on with --resume"
    assert str(caught.value) == f"cannot write checkpoint {path}: {way_out}"


def test_what_a_killed_writer_left_is_taken_over(tmp_path):
    (tmp_path / "file.txt.partial").write_text("a long rest of something else")
    write_text(tmp_path / "file.txt", "new")
    assert (tmp_path / "file.txt").read_text() == "new"
    assert names(tmp_path) == ["file.txt"]


def test_two_writers_of_one_file_do_not_mix(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PATIENCE", 0.0)
    path = tmp_path / "file.txt"
    with written(path) as partial:
        partial.write_text("first")
        with pytest.raises(Busy, match="is being written by another process"):
            write_text(path, "second")
    assert path.read_text() == "first"
    write_text(path, "second")
    assert path.read_text() == "second"


def test_a_link_is_kept_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    write_text(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def test_a_partial_file_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "precious.txt").write_text("precious")
    (tmp_path / "file.txt.partial").symlink_to("precious.txt")
    with pytest.raises(UnwritableFile):
        write_text(tmp_path / "file.txt", "new")
    assert (tmp_path / "precious.txt").read_text() == "precious"


def test_a_device_is_written_to_and_stays_a_device():
    write_text("/dev/null", "gone")
    check_place("/dev/null")
    assert not os.path.isfile("/dev/null")


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("missing/file.txt", "No such file or directory; check the folder"),
        ("file/under.txt", "Not a directory; check the folder"),
        ("folder", "it is a folder; name a file in it"),
        ("x" * 300, "File name too long; name another place"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_the_work(tmp_path, place, sentence):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UnwritableFile, match=sentence):
        check_place(tmp_path / place, "plan file")


def test_looking_at_a_place_changes_nothing(tmp_path):
    (tmp_path / "file.txt").write_text("old")
    check_place(tmp_path / "file.txt")
    check_place(tmp_path / "new.txt")
    assert names(tmp_path) == ["file.txt"]
    assert (tmp_path / "file.txt").read_text() == "old"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"{", "is not valid JSON"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"[" * 50_000 + b"]" * 50_000, "nested"),
        (b"[" * 101 + b"]" * 101, "nested more than 100 levels"),
        (b"1" * 5000, "is not valid JSON"),
        (b"name,count,rate\nfast,5,20\n", r"is a table \(CSV\), not JSON; is it the right file\?$"),
        (b'{"a": 1,\n "b": 2,\n', "is not valid JSON"),
    ],
)
def test_what_is_not_json_gets_one_sentence(tmp_path, content, sentence):
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(UnreadableFile, match=sentence) as caught:
        read_json(path, "plan file")
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("content", ["a = ", "a = " + "[" * 50_000, "a = " + "1" * 5000, "a" * 10])
def test_what_is_not_toml_gets_one_sentence(tmp_path, content):
    path = tmp_path / "file.toml"
    path.write_text(content)
    with pytest.raises(UnreadableFile, match="is not valid TOML"):
        read_toml(path, "run file")


def test_files_are_read_up_to_a_size(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("12345")
    assert read_bytes(path, most=5) == b"12345"
    with pytest.raises(UnreadableFile, match="at most 4 bytes"):
        read_bytes(path, most=4)


@pytest.mark.parametrize(
    ("place", "sentence"), [("none", "does not exist"), (".", "is a folder"), ("a\0b", "cannot be read")]
)
def test_a_missing_file_gets_one_sentence(tmp_path, place, sentence):
    with pytest.raises(UnreadableFile, match=sentence):
        read_text(tmp_path / place, "fleet file")


def test_what_is_written_is_read_again(tmp_path):
    write_json(tmp_path / "a.json", {"a": [1, None]})
    assert read_json(tmp_path / "a.json") == {"a": [1, None]}
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": [1, None]}
    (tmp_path / "a.toml").write_bytes(b"\xef\xbb\xbfa = 1\r\nb = 'x'\r\n")
    assert read_toml(tmp_path / "a.toml") == {"a": 1, "b": "x"}


def test_one_process_at_a_time_in_a_folder(tmp_path):
    assert not busy(tmp_path)
    with alone(tmp_path):
        assert busy(tmp_path)
        with pytest.raises(Busy), alone(tmp_path):
            pass
    assert not busy(tmp_path)


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "precious.txt").write_text("precious")
    (tmp_path / "lock").symlink_to("precious.txt")
    with pytest.raises(OSError, match="symbolic links"), alone(tmp_path):
        pass
    assert (tmp_path / "precious.txt").read_text() == "precious"


def test_a_link_is_found_at_any_depth_and_one_that_leads_nowhere_too(tmp_path):
    deep = tmp_path / "folder" / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    no_links(tmp_path / "folder")
    (deep / "link").symlink_to("nowhere")
    with pytest.raises(InvalidInput, match="b/link must not be a link, it points to nowhere; put a copy in its place"):
        no_links(tmp_path / "folder")


def test_a_folder_may_be_a_link_and_hold_others_than_those_asked_for(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "folder")
    (tmp_path / "folder" / "other").symlink_to(tmp_path)
    no_links(tmp_path / "linked", "mine", "missing")
    (tmp_path / "folder" / "mine").symlink_to(tmp_path / "gone")
    with pytest.raises(InvalidInput, match="mine must not be a link"):
        no_links(tmp_path / "linked", "mine", "missing")
    no_links(tmp_path / "nowhere")


def test_a_lock_of_a_block_that_fails_is_not_left_behind(tmp_path):
    with pytest.raises(ZeroDivisionError), alone(tmp_path):
        raise ZeroDivisionError
    assert names(tmp_path) == []


def test_a_second_writer_waits_for_one_that_is_about_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PATIENCE", 60.0)  # a busy disk may take long to keep what the first has written
    path, begun = tmp_path / "file.txt", threading.Event()

    def write_slowly() -> None:
        with written(path) as partial:
            partial.write_text("first")
            begun.set()
            time.sleep(0.2)

    slow = threading.Thread(target=write_slowly)
    slow.start()
    begun.wait()
    write_text(path, "second")
    slow.join()
    assert path.read_text() == "second"


def test_a_file_keeps_its_permissions_when_it_is_replaced(tmp_path):
    path = tmp_path / "file.txt"
    write_text(path, "old")
    path.chmod(0o600)
    write_text(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_killed_writers_left_in_a_folder_is_removed_and_what_is_being_written_is_not(tmp_path):
    (tmp_path / "killed.txt.partial").write_text("half")
    (tmp_path / "folder.partial").mkdir()
    with written(tmp_path / "file.txt") as partial:
        partial.write_text("new")
        tidy(tmp_path)
    assert names(tmp_path) == ["file.txt", "folder.partial"]


# what may write in another way, and why
ELSEWHERE = {
    ("files.py", "replace"): "here it is done",
    ("cli/main.py", "open"): "nowhere, where the shell has closed an output",
    ("folders.py", "rename"): "here it is done for folders",
    ("folders.py", "mkdtemp"): "to see whether a folder can be written to",
    ("facade/surroundings.py", "mkdtemp"): "a folder that nobody named, which goes with its run",
    ("cli/run_flags.py", "replace"): "of an argument of a function",
    ("timing/log/times.py", "replace"): "of the time zone of a moment",
    ("learning/run/metrics.py", "open"): "rows are appended, and cut back to the last checkpoint",
    ("learning/run/metrics.py", "truncate"): "rows are appended, and cut back to the last checkpoint",
    ("learning/data/images/decoded.py", "save"): "the cache of decoded images, which may be lost",
    ("learning/data/images/decoded.py", "replace"): "the cache of decoded images, which may be lost",
    ("learning/data/images/decoded.py", "mkdtemp"): "the cache of decoded images, which may be lost",
    ("experiments/processes.py", "write_text"): "a word between processes, of no use after them",
    ("experiments/run_cells.py", "touch"): "a word between processes, of no use after them",
    ("experiments/run_cells.py", "mkdtemp"): "words between processes, of no use after them",
    ("experiments/on_ray.py", "touch"): "a word between processes, of no use after them",
    ("experiments/on_ray.py", "write_bytes"): "inputs on another machine, of no use after the run",
    ("live/journal.py", "truncate"): "rows are appended, and cut back to the last commit",
    ("live/local.py", "open"): "what the processes of clients print",
    ("live/log.py", "open"): "lines are appended",
    ("live/log.py", "replace"): "a long log is turned over",
    ("report/page/svg.py", "savefig"): "into memory, as a part of a page",
    ("report/web/tokens.py", "mkdtemp"): "a private folder for a secret, removed with its page",
    ("secret_files.py", "replace"): "whole or not at all, and readable by the owner alone from the beginning",
}
METHODS = {"write_text", "write_bytes", "rename", "touch", "truncate", "symlink_to", "to_csv", "to_parquet"}
FUNCTIONS = {"savefig", "ParquetWriter", "mkdtemp", "NamedTemporaryFile", "copyfile", "copytree", "move", "save_file"}


def writes(path):
    """Names of calls in a source file that write to the disk by themselves, not to a `partial` that was lent."""
    for call in (one for one in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(one, ast.Call)):
        method = isinstance(call.func, ast.Attribute)
        name = call.func.attr if method else getattr(call.func, "id", "")
        target = ast.unparse(call.func.value) if method else ""
        words = [ast.unparse(one) for one in (*call.args, *(one.value for one in call.keywords))]
        by_itself = {
            "open": any(re.fullmatch("'[rbt]*[wax+][rbtwax+]*'", word) for word in words),
            "replace": target == "os" or (method and len(words) == 1),  # of text it takes two arguments
            "save": target in ("np", "torch"),
        }.get(name, name in FUNCTIONS or (method and name in METHODS))
        if by_itself and (name == "replace" or "partial" not in (target, *words[:1])):
            yield name


def test_nothing_writes_files_in_another_way():
    home = Path(files.__file__).parent
    found = {(path.relative_to(home).as_posix(), name) for path in home.rglob("*.py") for name in writes(path)}
    assert found - set(ELSEWHERE) == set()
    assert set(ELSEWHERE) - found == set()  # no exception that is not needed


def test_a_binary_file_is_not_called_badly_encoded_text(tmp_path):
    (tmp_path / "picture.csv").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    with pytest.raises(UnreadableFile, match=r"^fleet file .* is not a text file; is it the right file\?$"):
        read_text(tmp_path / "picture.csv", "fleet file")
