"""Mutants: the code made wrong in one small place, to see which places no test looks at.

    python tests/mutants.py planner                      # a sample of 200 mutants of one room, at most ten minutes
    python tests/mutants.py local --most 50 --seconds 300 --seed 1 --out mutants.csv
    python tests/mutants.py local --again mutants.csv --tests tests/learning --slowest 20 --each 60

A mutant has one number doubled or one larger, one comparison, sign, `and`, `not`, `min` or truth value turned round, or
returns nothing. The package is copied; the tests of the room run once on the copy and tell which lines each of them
reaches; then, for each mutant, those that reach its line run until one fails. Who survives is printed: it is either no
error at all (another way to write the same), or one that no fast test would notice. Only tests that take less than
`--slowest` seconds take part, for one mutant at most `--each` seconds of them, the fastest first; so try survivors
again with more tests before you believe them. Seconds of tests are those of a processor, `--seconds` are of a clock.

Compiled code runs as plain Python here (NUMBA_DISABLE_JIT) where a room says so: compiling anew takes a minute.
Not a test: pytest does not collect this file. Works where processes can fork.
"""

import argparse
import ast
import contextlib
import csv
import importlib
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

HERE = Path(__file__).resolve().parent.parent
HEAVY = ("numpy", "scipy.optimize", "scipy.special", "scipy.stats", "pandas", "pyarrow", "numba", "torch")
OTHER: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}
TWINS = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "argmin": "argmax", "argmax": "argmin"}


@dataclass(frozen=True)
class Room:
    """Files that are changed, and tests that should notice."""

    files: tuple[str, ...]
    tests: tuple[str, ...]
    plain: bool = False
    """Whether compiled code runs as plain Python."""


LEARNING, EXACT, PLANNING = "tests/learning/test_", "tests/timing/exact/test_", "tests/planning/test_"
ROOMS = {
    "exact": Room(
        ("timing/exact/analysis.py", "timing/exact/jackson.py", "timing/exact/scaling.py"),
        tuple(f"{EXACT}{one}.py" for one in ("analysis", "jackson", "buzen", "links", "scaling", "staleness")),
    ),
    "kernels": Room(
        ("timing/exact/contour.py", "timing/exact/mva.py"),
        tuple(f"{EXACT}{one}.py" for one in ("analysis", "jackson", "buzen", "contour")),
        plain=True,
    ),
    "capped": Room(
        tuple(f"timing/exact/{one}.py" for one in ("capped", "capped_draw", "circle", "circle_moments", "held")),
        tuple(f"{EXACT}{one}.py" for one in ("capped", "capped_draw", "capped_states")),
        plain=True,
    ),
    "planner": Room(
        ("planning/bound", "planning/promises.py"),
        (
            f"{EXACT}bound.py",
            f"{EXACT}communication.py",
            *(f"{PLANNING}{one}.py" for one in ("check_values", "comparison", "objective", "promises", "search")),
        ),
    ),
    "algorithms": Room(
        ("learning/algorithms", "learning/replay/server_step.py"),
        (f"{LEARNING}method_check_values.py", f"{LEARNING}pieces.py", f"{LEARNING}algorithm_table.py"),
    ),
    "local": Room(
        (
            "learning/replay/local.py",
            "learning/replay/replay.py",
            "learning/execute/waves.py",
            "learning/execute/executor.py",
            "learning/execute/flat_model.py",
        ),
        (
            f"{LEARNING}local_work_by_hand.py",
            *(f"{LEARNING}{one}.py" for one in ("pieces", "method_check_values", "waves")),
        ),
    ),
}


class Mutant(NamedTuple):
    """One changed place."""

    file: str
    line: int
    before: str
    after: str
    start: int
    """Where `before` begins in the file, in bytes."""


class Ran(NamedTuple):
    """What became of a run of tests."""

    outcome: str
    by: str
    """The test that failed."""


# --- the mutants ---


def mutants(root: Path, file: str) -> list[Mutant]:
    """All mutants of a file."""
    source = (root / file).read_bytes()
    begins = [0]
    for line in source.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    found = []
    for node, after in _changes(ast.parse(source)):
        assert isinstance(node, ast.expr | ast.AugAssign | ast.Return)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start, end = begins[node.lineno - 1] + node.col_offset, begins[node.end_lineno - 1] + node.end_col_offset
        found.append(Mutant(file, node.lineno, source[start:end].decode(), after, start))
    return found


def _changes(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Every node that can be changed, with the text that takes its place."""
    for node in _walk(tree):
        match node:
            case ast.Constant(value=bool()):
                yield node, str(not node.value)
            case ast.Constant(value=int() | float()):
                for value in {2 * node.value, node.value + 1} - {node.value}:
                    yield node, repr(value)
            case ast.Compare():
                for place, op in enumerate(node.ops):
                    for other in OTHER.get(type(op), ()):
                        ops = [*node.ops[:place], other(), *node.ops[place + 1 :]]
                        yield node, _text(ast.Compare(node.left, ops, node.comparators))
            case ast.BinOp():
                for other in OTHER.get(type(node.op), ()):
                    yield node, _text(ast.BinOp(node.left, other(), node.right))
            case ast.AugAssign():
                for other in OTHER.get(type(node.op), ()):
                    yield node, ast.unparse(ast.AugAssign(node.target, other(), node.value))
            case ast.BoolOp():
                yield node, _text(ast.BoolOp(OTHER[type(node.op)][0](), node.values))
            case ast.UnaryOp(op=ast.Not() | ast.USub()):
                yield node, _text(node.operand)
            case ast.IfExp():
                yield node, _text(ast.IfExp(node.test, node.orelse, node.body))
            case ast.Name() if node.id in TWINS:
                yield node, TWINS[node.id]
            case ast.Attribute() if node.attr in TWINS:
                yield node, _text(ast.Attribute(node.value, TWINS[node.attr], node.ctx))
            case ast.Return() if node.value is not None:
                yield node, "return None"


def _text(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """What a program does: no annotations, decorators, messages."""
    if isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert):
        return
    yield node
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not (isinstance(child, ast.keyword) and child.arg == "strict"):
                yield from _walk(child)


# --- the tests ---


class Watch:
    """A pytest plugin that notes which lines of some files each test reaches, and how long it takes."""

    def __init__(self, files: list[str], slowest: float) -> None:
        self._files, self._slowest = set(files), slowest
        self._lines: set[tuple[str, int]] = set()
        self.early: list[tuple[str, int]] = []
        self.tests: dict[str, dict[str, Any]] = {}
        sys.settrace(self._called)

    def _called(self, frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in self._files:
            return None
        self._lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._inside

    def _inside(self, frame: Any, event: str, _: Any) -> Any:
        self._lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._inside

    def pytest_collection_finish(self) -> None:
        self.early, self._lines = sorted(self._lines), set()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._lines = set()
        began = time.process_time()
        self.tests[item.nodeid] = {"right": True}
        sys.settrace(self._called)
        yield
        sys.settrace(None)
        self.tests[item.nodeid] |= {"seconds": time.process_time() - began, "lines": sorted(self._lines)}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        signal.signal(signal.SIGPROF, _too_long)
        signal.setitimer(signal.ITIMER_PROF, self._slowest)
        yield
        signal.setitimer(signal.ITIMER_PROF, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.tests[report.nodeid]["right"] &= report.outcome == "passed"


def _too_long(*_: Any) -> None:
    raise TimeoutError("too slow for mutants")


def _forked(copy: Path, tests: list[str], seconds: float, found: Path | None = None, **watch: Any) -> Ran:
    """Run tests of the copy in a process of their own, which has all that is heavy from this one."""
    log = copy / "log.txt"
    options = ["-q", "-m", "not slow", "-p", "no:cacheprovider", "--no-header", "--tb=no", f"--rootdir={copy}"]
    child = os.fork()
    if child == 0:
        code = 9
        try:
            code = _here(copy, log, [*options, *([] if found else ["-x"]), *tests], found, watch)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            failed = re.search(r"^(?:FAILED|ERROR) (\S+)", log.read_text(errors="replace"), re.MULTILINE)
            outcome = "survived" if os.waitstatus_to_exitcode(status) == 0 else "killed"
            return Ran(outcome, failed[1] if failed else "")
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return Ran("timed out", "")


def _here(copy: Path, log: Path, arguments: list[str], found: Path | None, watch: dict[str, Any]) -> int:
    """Run pytest in this process, once and for all."""
    os.setsid()
    with log.open("w") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    os.chdir(copy)
    sys.path[:0] = [str(copy / "src")]
    plugins = [Watch(**watch)] if found else []
    code = pytest.main(arguments, plugins=plugins)
    sys.settrace(None)
    if found:
        found.write_text(json.dumps({"early": plugins[0].early, "tests": plugins[0].tests}))
    return int(code)


def _copied(copy: Path) -> Path:
    """The copy, which keeps what was compiled for it before."""
    left = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "demo-out", "results")
    shutil.copytree(HERE, copy, ignore=left, dirs_exist_ok=True)
    return copy


class Covered:
    """Which tests reach a line."""

    def __init__(self, copy: Path, told: dict[str, Any], each: float) -> None:
        self._copy, self._each = copy, each
        self._early = {tuple(place) for place in told["early"]}
        self.tests = {name: one for name, one in told["tests"].items() if one["right"]}
        self._lines = {name: {tuple(place) for place in one["lines"]} for name, one in self.tests.items()}

    def of(self, mutant: Mutant) -> list[str]:
        """Tests that reach the line, the fastest first; where it runs at import, all that reach its file."""
        place = (str(self._copy / mutant.file), mutant.line)
        found = [name for name, lines in self._lines.items() if place in lines]
        if not found and place in self._early:
            found = [name for name, lines in self._lines.items() if any(file == place[0] for file, _ in lines)]
        found.sort(key=lambda name: self.tests[name]["seconds"])
        chosen, spent = [], 0.0
        for name in found:
            spent += self.tests[name]["seconds"]
            if spent > self._each and chosen:
                break
            chosen.append(name)
        return chosen


def _tried(copy: Path, mutant: Mutant, tests: list[str], seconds: float, number: int) -> Ran:
    """Put the mutant in its place, run its tests, put things right again."""
    if not tests:
        return Ran("not reached", "")
    path = copy / mutant.file
    right = path.read_bytes()
    end = mutant.start + len(mutant.before.encode())
    path.write_bytes(right[: mutant.start] + mutant.after.encode() + right[end:])
    os.utime(path, (number, number))  # no two mutants with one time stamp: Python would run the older's byte code
    try:
        return _forked(copy, tests, seconds)
    finally:
        path.write_bytes(right)


def main() -> None:
    """Try mutants of one room and print who survives."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("room", choices=ROOMS)
    parser.add_argument("--most", type=int, default=200, help="mutants")
    parser.add_argument("--seconds", type=float, default=600.0, help="for all of them")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--slowest", type=float, default=5.0, help="seconds that a test may take")
    parser.add_argument("--each", type=float, default=15.0, help="seconds of tests for one mutant")
    parser.add_argument("--tests", nargs="+", help="files of tests, in place of the room's")
    parser.add_argument("--again", type=Path, help="CSV file of an earlier run: only those that nobody noticed")
    parser.add_argument("--copy", type=Path, help="folder of the copy, to be used again; the next run need not compile")
    parser.add_argument("--out", type=Path, help="CSV file of all that were tried")
    options = parser.parse_args()
    room = ROOMS[options.room]
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    if room.plain:
        os.environ["NUMBA_DISABLE_JIT"] = "1"
    for name in HEAVY:
        importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        copy = options.copy.resolve() if options.copy else Path(folder) / "copy"
        _try_all(options, room, _copied(copy), Path(folder) / "told.json")


def _try_all(options: argparse.Namespace, room: Room, copy: Path, told: Path) -> None:
    files = sorted(str(path.relative_to(copy)) for one in room.files for path in _sources(copy / "src/sojourn" / one))
    tests = [one for one in options.tests or room.tests if (copy / one).exists()]
    print(f"{options.room}: {len(files)} files; the tests once, as they are", flush=True)
    _forked(copy, tests, 1800, told, files=[str(copy / file) for file in files], slowest=options.slowest)
    if not told.exists():
        sys.exit((copy / "log.txt").read_text())
    covered = Covered(copy, json.loads(told.read_text()), options.each)
    every = [mutant for file in files for mutant in mutants(copy, file)]
    if options.again:
        left = _unnoticed(options.again)
        every = [mutant for mutant in every if (mutant.file, str(mutant.line), mutant.before, mutant.after) in left]
    sample = random.Random(options.seed).sample(every, min(options.most, len(every)))
    print(f"{len(covered.tests)} tests, {len(every)} mutants, of which {len(sample)} are tried", flush=True)
    rows, until = [], time.monotonic() + options.seconds
    for number, mutant in enumerate(sample, start=1):
        if time.monotonic() > until:
            break
        chosen = covered.of(mutant)
        usual = sum(covered.tests[name]["seconds"] for name in chosen)
        ran = _tried(copy, mutant, chosen, 20 + 5 * usual, number)
        rows.append((*mutant[:4], ran.outcome, ran.by, len(chosen)))
        if ran.outcome in ("survived", "not reached"):
            print(f"{ran.outcome}: {mutant.file}:{mutant.line}: {mutant.before} -> {mutant.after}", flush=True)
    counts = {outcome: sum(row[4] == outcome for row in rows) for outcome in sorted({row[4] for row in rows})}
    print(f"{options.room}: {len(rows)} tried; " + ", ".join(f"{n} {outcome}" for outcome, n in counts.items()))
    if options.out:
        with options.out.open("w", newline="") as out:
            csv.writer(out).writerows([("file", "line", "before", "after", "outcome", "by", "tests"), *rows])


def _unnoticed(file: Path) -> set[tuple[str, ...]]:
    with file.open(newline="") as rows:
        return {tuple(row[:4]) for row in csv.reader(rows) if row[4] in ("survived", "not reached")}


def _sources(path: Path) -> list[Path]:
    return [path] if path.suffix else [one for one in path.rglob("*.py") if one.name != "__init__.py"]


if __name__ == "__main__":
    main()
