"""Read and write files whole or not at all; every error is one sentence.

A file is written as `NAME.partial` in the same folder and renamed once all of it is on the disk. So neither a killed
process nor an error leaves half a file or damages the previous one. The partial file is locked while it is written: a
second writer waits a moment and is then refused. The next writer takes over what a killed writer left behind.
"""

import errno
import json
import os
import re
import stat
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sojourn.errors import InvalidInput, SojournError, UnreadableFile, UnwritableFile

PARTIAL = ".partial"
MOST = 2**30  # bytes of a file that is read whole
MOST_TOML = 2**24  # the parser is written in Python, and slow
DEEPEST = 100  # levels of nesting in a JSON or TOML file
LOCK = "lock"
MOMENT = 0.1  # seconds at most to check a lock
PATIENCE = 2.0  # seconds to wait for another writer of the same file
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)  # errors of file systems without locks


class Busy(InvalidInput):
    """Another process holds the file or folder."""


@contextmanager
def written(path: str | Path, what: str = "file") -> Iterator[Path]:
    """Give a path to write to. At the end of the block it is renamed to `path`; after an error it is removed.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with written(Path(folder) / "answer.txt") as partial:
    ...         _ = partial.write_text("42")
    ...     (Path(folder) / "answer.txt").read_text()
    '42'
    """
    with writing(path, what):
        place = Path(path)
        if _stream(place):
            yield place
            return
        place = Path(os.path.realpath(place))  # a link stays a link: the file that it points to is replaced
        partial = Path(f"{place}{PARTIAL}")
        held = _claim(partial, _written_by_another(place), PATIENCE)
        try:
            os.ftruncate(held, 0)
            yield partial
            _settle(partial, place)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        finally:
            os.close(held)


def write_text(path: str | Path, text: str, what: str = "file") -> None:
    """Write a text file in UTF-8, whole or not at all."""
    with written(path, what) as partial:
        partial.write_text(text, "utf-8")


def write_bytes(path: str | Path, content: bytes, what: str = "file") -> None:
    """Write a file, whole or not at all."""
    with written(path, what) as partial:
        partial.write_bytes(content)


def write_json(path: str | Path, content: Any, what: str = "file") -> None:
    """Write a JSON file, whole or not at all."""
    write_text(path, json_text(content), what)


def json_text(content: Any) -> str:
    """Return the text of such a file."""
    return json.dumps(content, indent=2) + "\n"


@contextmanager
def writing(path: str | Path, what: str = "file") -> Iterator[None]:
    """Turn an error of the block into one sentence that says why it could not write."""
    try:
        yield
    except SojournError:
        raise
    except OSError as error:
        raise UnwritableFile(f"cannot write {what} {path}: {_reason(error)}; {_way_out(error)}") from error


def check_place(path: str | Path, what: str = "file") -> None:
    """Refuse, before any work is done, a place where a file could not be written."""
    place = Path(path)
    if os.path.isdir(place):
        raise UnwritableFile(f"cannot write {what} {path}: it is a folder; name a file in it")
    with writing(path, what):
        if not _stream(place):
            with claimed(Path(os.path.realpath(place) + PARTIAL), _written_by_another(place)):
                pass


def tidy(folder: Path) -> None:
    """Remove what killed writers left in a folder."""
    for partial in folder.glob(f"*{PARTIAL}"):
        with suppress(OSError, Busy):
            if not _held(partial):
                with claimed(partial, ""):
                    pass


def read_bytes(path: str | Path, what: str = "file", most: int = MOST) -> bytes:
    """Return the content of a file; a missing, unreadable or far too large file raises an error of one sentence."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(most + 1)
    except FileNotFoundError:
        raise UnreadableFile(f"{what} {path} does not exist; check the path") from None
    except IsADirectoryError:
        raise UnreadableFile(f"{what} {path} is a folder; name the file in it") from None
    except PermissionError:
        raise UnreadableFile(f"{what} {path} cannot be read for lack of permission; check its permissions") from None
    except (OSError, ValueError) as error:  # a path may hold a zero character, which is a ValueError
        raise UnreadableFile(f"{what} {path} cannot be read: {_reason(error)}; check the path") from None
    if len(content) > most:
        raise UnreadableFile(f"{what} {path} must be at most {most:,} bytes long, it is longer; is it the right file?")
    return content


def read_text(path: str | Path, what: str = "file", most: int = MOST) -> str:
    """Return the content of a text file in UTF-8."""
    content = read_bytes(path, what, most)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        if is_binary(content):
            raise UnreadableFile(f"{what} {path} is not a text file; is it the right file?") from None
        raise UnreadableFile(f"{what} {path} is not UTF-8 text; save it as UTF-8") from None


def is_binary(content: bytes) -> bool:
    """Whether the content of a file is no text; UTF-16 is text, although it holds zero bytes."""
    return b"\0" in content and not content.startswith((b"\xff\xfe", b"\xfe\xff"))


def read_json(path: str | Path, what: str = "file", most: int = MOST) -> Any:
    """Return the content of a JSON file."""
    text = read_text(path, what, most)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:  # numbers with thousands of digits are ValueErrors too
        if _like_a_table(text):
            raise UnreadableFile(f"{what} {path} is a table (CSV), not JSON; is it the right file?") from None
        raise UnreadableFile(f"{what} {path} is not valid JSON ({_reason(error)}); is it truncated?") from None
    return _shallow(content, f"{what} {path}")


def _like_a_table(text: str) -> bool:
    """Whether a text looks like a table: rows with as many cells as the first one has names, and no bracket first."""
    rows = [line.count(",") for line in text.splitlines()[:2]]
    return len(rows) == 2 and rows[0] == rows[1] > 0 and not text.lstrip().startswith(("{", "["))


def read_toml(path: str | Path, what: str = "file", most: int = MOST_TOML) -> dict[str, Any]:
    """Return the content of a TOML file."""
    text = read_text(path, what, most)
    if _dotted(text):
        raise UnreadableFile(f"{what} {path} is nested more than {DEEPEST} levels deep; is it the right file?")
    try:
        content = tomllib.loads(text.replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        raise UnreadableFile(f"{what} {path} is not valid TOML: {_reason(error)}") from None
    return dict(_shallow(content, f"{what} {path}"))


@contextmanager
def claimed(path: Path, busy: str) -> Iterator[None]:
    """Hold a lock file and remove it at the end; if another process holds it, raise an error with
    the sentence `busy`.
    """
    held = _claim(path, busy, PATIENCE)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(held)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other processes from working in the same folder; a block that fails leaves no new lock file behind."""
    with writing(folder / LOCK, "the lock"):
        lock, new = folder / LOCK, not (folder / LOCK).exists()
        held = _claim(lock, f"another process is training in {folder}; wait for it, or name another folder", MOMENT)
    try:
        yield
    except BaseException:
        if new:
            lock.unlink(missing_ok=True)
        raise
    finally:
        os.close(held)


def busy(folder: str | Path) -> bool:
    """Whether another process is working in a folder."""
    return _held(Path(folder) / LOCK)


def _held(path: Path) -> bool:
    """Whether another process holds a file."""
    if not path.exists():
        return False
    held = _locked(path)
    if held is not None:
        os.close(held)
    return held is None


def no_links(folder: str | Path, *names: str) -> None:
    """Refuse links, pipes and devices in a folder at any depth, or among these names in it; the folder may be a link
    itself.

    A link would read or write a file that lies elsewhere, and reading a pipe can wait for ever.
    """
    places = [Path(folder) / name for name in names] if names else _inside(Path(folder))
    while places:
        place = places.pop()
        try:
            mode = place.lstat().st_mode
        except OSError:  # it is not there
            continue
        if stat.S_ISDIR(mode):
            places += _inside(place)
        elif stat.S_ISLNK(mode):
            raise InvalidInput(
                f"{place} must not be a link, it points to {os.readlink(place)}; put a copy in its place"
            )
        elif not stat.S_ISREG(mode):
            raise InvalidInput(f"{place} must be a file or a folder, it is a pipe or a device; remove it")


def _inside(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # the reader of the file will say what is wrong
        return []


def _stream(place: Path) -> bool:
    """Whether it is a pipe or a device, which is written to directly; /dev/stdout may point to a plain file."""
    try:
        mode = place.stat().st_mode
    except OSError:
        return False
    device = place.is_relative_to("/dev") and not place.is_relative_to("/dev/shm")
    return device or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _claim(path: Path, busy: str, patience: float) -> int:
    """Open and lock a file; if another process holds it longer than `patience` seconds, raise an
    error saying `busy`.
    """
    until = time.monotonic() + patience
    while True:
        held = _locked(path)
        if held is None:
            if time.monotonic() > until:
                raise Busy(busy)
            time.sleep(0.01)
            continue
        try:
            mine = os.path.samestat(os.fstat(held), os.lstat(path))
        except FileNotFoundError:  # another process has just finished, and taken the file away
            mine = False
        if mine:
            return held
        os.close(held)


def _written_by_another(place: Path) -> str:
    return f"{place} is being written by another process; wait for it to end"


def _locked(path: Path) -> int | None:
    """Open a file and lock it; None where another process holds it. A link is never followed."""
    held = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    try:
        import fcntl

        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:  # a system without such locks
        pass
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            os.close(held)
            if isinstance(error, BlockingIOError):
                return None
            raise
    return held


def _settle(partial: Path, path: Path) -> None:
    """Rename a file to its final name once its content is on the disk; it keeps the permissions of the file it
    replaces.
    """
    if path.exists():
        partial.chmod(stat.S_IMODE(path.stat().st_mode))
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(partial, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _shallow(content: Any, where: str) -> Any:
    """Refuse content that is nested too deeply for recursive code."""
    level: list[Any] = [content]
    for _ in range(DEEPEST):
        inside = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [one for many in inside for one in many]
        if not level:
            return content
    raise UnreadableFile(f"{where} is nested more than {DEEPEST} levels deep; is it the right file?")


def _dotted(text: str) -> bool:
    """Whether a key of a TOML file has too many dots: the parser's time grows with their square."""
    suspect = (line for line in text.splitlines() if line.count(".") > DEEPEST)
    return any(part.count(".") > DEEPEST for line in suspect for part in re.split("[,=]", line.replace("..", "")))


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deep"
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno)  # without the words that libraries add
    return str(error)


def _way_out(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "make room on that disk; a run goes on with --resume"
    return "check the folder" if isinstance(error, FileNotFoundError | NotADirectoryError) else "name another place"
