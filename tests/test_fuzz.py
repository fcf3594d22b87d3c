"""Whatever stands in a file or in an option: it is read, or refused in one sentence. Nothing else may happen.

What every reader takes is changed in thousands of ways, the same ways every time. Reading must then succeed or raise a
SojournError whose text is one printable line of bounded length; another error, or no end, is a defect.
"""

import random
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import mutation
import parsers
from sojourn.errors import SojournError

LONGEST = 600  # characters of a sentence
PATIENCE = 60  # seconds; the slowest reading takes a tenth of one
FEW, MANY = 120, 3000  # changes of each reader: in every test, and in the long ones
FEW_RUNS, MANY_RUNS = 25, 400  # changes of each file of a run that is taken up again


class NoEnd(BaseException):
    """Reading takes too long."""


@contextmanager
def patience() -> Iterator[None]:
    def ring(number: int, frame: object) -> None:
        raise NoEnd

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def problem(read: Callable[[Any], Any], given: Any) -> str | None:
    """What is wrong with reading this; None = it is read, or refused as it should be."""
    try:
        with patience():
            read(given)
    except SojournError as error:
        said = str(error)
        if not said.isprintable() or not 0 < len(said) <= LONGEST:
            return f"the sentence is {said!r}"
    except NoEnd:
        return "reading has no end"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def changed(name: str, examples: tuple[Any, ...], change: Callable[[random.Random, Any], Any], many: int) -> Iterator:
    """The examples, and so many changes of them."""
    yield from examples
    for number in range(many):
        rng = random.Random(f"{name} {number}")
        yield change(rng, rng.choice(examples))


def check_texts(name: str, many: int) -> None:
    reader = parsers.TEXTS[name]
    for given in changed(name, reader.examples, mutation.text, many):
        assert problem(reader.read, given) is None, f"{name}: {given[:2000]!r}"


def check_contents(
    name: str, examples: tuple[bytes, ...], suffix: str, read: Callable[[bytes], Any], many: int
) -> None:
    def change(rng: random.Random, given: bytes) -> bytes:
        return mutation.content(rng, given, suffix)

    for given in changed(name, examples, change, many):
        assert problem(read, given) is None, f"{name}: {given[:2000]!r}"


def check_file(name: str, folder: Path, many: int) -> None:
    reader = parsers.FILES[name]
    path = folder / f"given{reader.suffix}"

    def read(content: bytes) -> Any:
        path.write_bytes(content)
        return reader.read(path)

    check_contents(name, tuple(text.encode() for text in reader.examples), reader.suffix, read, many)


def check_folder(name: str, files: dict[str, bytes], read: Callable[[Path], Any], folder: Path, many: int) -> None:
    """A folder in which one file is changed, made anew each time: whoever reads it may write into it."""

    def made(content: bytes) -> Any:
        shutil.rmtree(folder, ignore_errors=True)
        for other, held in {**files, name: content}.items():
            (folder / other).parent.mkdir(parents=True, exist_ok=True)
            (folder / other).write_bytes(held)
        return read(folder)

    check_contents(name, (files[name],), Path(name).suffix, made, many)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parsers")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no path in a changed file leads to anything, but those that the examples name."""
    parsers.FLEET.save(tmp_path / "fleet.csv")
    (tmp_path / "plan.json").write_text(parsers.PLAN_FILE)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", parsers.TEXTS)
def test_any_text_is_read_or_refused_in_one_sentence(name):
    check_texts(name, FEW)


@pytest.mark.parametrize("name", parsers.FILES)
def test_any_file_is_read_or_refused_in_one_sentence(name, tmp_path):
    check_file(name, tmp_path, FEW)


@pytest.mark.parametrize("name", parsers.RUN)
def test_any_folder_of_a_run_is_taken_up_or_refused_in_one_sentence(name, home, tmp_path):
    check_folder(name, parsers.run_folder(home), parsers.resumed, tmp_path / "run", FEW_RUNS)


@pytest.mark.parametrize("name", parsers.CELL)
def test_any_folder_of_a_cell_is_read_or_refused_in_one_sentence(name, home, tmp_path):
    check_folder(name, parsers.cell_folder(home), parsers.looked_at, tmp_path / "cell", FEW)


def test_any_trace_is_read_or_refused_in_one_sentence(home, tmp_path):
    check_folder("trace.parquet", parsers.run_folder(home), parsers.read_trace, tmp_path / "run", FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", parsers.TEXTS)
def test_any_text_is_read_or_refused_thousands_of_times(name):
    check_texts(name, MANY)


@pytest.mark.slow
@pytest.mark.parametrize("name", parsers.FILES)
def test_any_file_is_read_or_refused_thousands_of_times(name, tmp_path):
    check_file(name, tmp_path, MANY)


@pytest.mark.slow
@pytest.mark.parametrize("name", parsers.RUN)
def test_any_folder_of_a_run_is_taken_up_or_refused_hundreds_of_times(name, home, tmp_path):
    check_folder(name, parsers.run_folder(home), parsers.resumed, tmp_path / "run", MANY_RUNS)


@pytest.mark.slow
@pytest.mark.parametrize("name", parsers.CELL)
def test_any_folder_of_a_cell_is_read_or_refused_thousands_of_times(name, home, tmp_path):
    check_folder(name, parsers.cell_folder(home), parsers.looked_at, tmp_path / "cell", MANY)


@pytest.mark.slow
def test_any_trace_is_read_or_refused_thousands_of_times(home, tmp_path):
    check_folder("trace.parquet", parsers.run_folder(home), parsers.read_trace, tmp_path / "run", MANY)


ONCE = (
    *(("dispatcher", "rounds(wait=nan)"), ("dispatcher", "rounds(wait=1e999)"), ("dispatcher", "rounds(wait=1e300)")),
    *(("part", "\u00b2/\u00b3"), ("part", "9" * 5000 + "/1"), ("law", f"erlang(shape={'9' * 5000})")),
    *(("schedule", "drops(at=100/200, by=1e308)"), ("schedule", "cosine(end=40, least=1e308)")),
    *(("dataset", "quadratic(noise=1e308)"), ("dataset", f"quadratic(dimension={'9' * 400})")),
    *(("dataset", f"cifar10(folder={'x' * 300})"), ("dataset", "cifar10(folder=~nobody/at/all)")),
    *(
        ("step sizes", str(2**31)),
        ("step sizes", str(2**63)),
        ("setting", "concurrency=1e300"),
        ("setting", "seed=1e30"),
    ),
)


@pytest.mark.parametrize(("name", "text"), ONCE, ids=lambda word: word[:40])
def test_what_once_ended_in_a_traceback_is_refused_in_one_sentence(name, text):
    with pytest.raises(SojournError):
        parsers.TEXTS[name].read(text)
    assert problem(parsers.TEXTS[name].read, text) is None


DEEP = 50_000
HOSTILE = {
    "nothing": "",
    "brackets in brackets": "[" * DEEP,
    "tables in tables": '{"a":' * DEEP,
    "a list of a list": "a = " + "[" * DEEP + "]" * DEEP,
    "a key with dots": "a." * DEEP + "a = 1",
    "a table with dots": "[" + "a." * DEEP + "a]",
    "a long number": "A = " + "9" * 5000,
    "a long number in JSON": '{"sojourn_plan": ' + "9" * 5000 + "}",
    "a long cell": "name,count,rate\n" + "a" * 200_000 + ",1,1\n",
    "quotes without an end": '"' * (DEEP + 1),
    "zeros": "\0" * DEEP,
    "a byte order mark": "\ufeff",
}


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("name", parsers.FILES)
def test_a_file_made_to_hurt_is_refused_in_one_sentence(name, hostile, tmp_path):
    reader = parsers.FILES[name]
    path = tmp_path / f"given{reader.suffix}"
    path.write_text(HOSTILE[hostile], "utf-8")
    assert problem(reader.read, path) is None


@pytest.mark.parametrize("name", parsers.FILES)
def test_a_place_that_cannot_be_read_is_reported_in_one_sentence(name, tmp_path):
    reader = parsers.FILES[name]
    folder, dangling = tmp_path / f"folder{reader.suffix}", tmp_path / f"dangling{reader.suffix}"
    folder.mkdir()
    dangling.symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    for place in (folder, dangling, tmp_path / "file" / f"under{reader.suffix}", Path("x" * 5000 + reader.suffix)):
        with pytest.raises(SojournError):
            reader.read(place)
        assert problem(reader.read, place) is None
