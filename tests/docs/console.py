"""Pages whose code is run: what they show is what comes out.

    python tests/docs/console.py docs/tutorial.md            # say where page and outputs differ
    python tests/docs/console.py docs/tutorial.md --update   # write the outputs into the page

The blocks of a page are run in their order, in one empty folder, at 80 columns:

- ```console has commands behind `$ `, each followed by its output.
- ```python is run in one interpreter per page; a block without a language right below it is what it prints.
- <!-- file: name --> above a block: it is written to a file of that name.
- <!-- needs: path --> copies a file of the repository into the folder.
- <!-- varies: regex --> above a block: what matches may differ from run to run, such as an elapsed time.
- <!-- trained --> above a block: its numbers hang on how a processor rounds. They are compared on the machine of
  tests/recorded/same_numbers.json; on others only the words are.
- <!-- illustration --> above a block: it is not run.
- <!-- picture: path --> above an image: the file that the blocks before and after made; --update copies it.
"""

import contextlib
import io
import json
import linecache
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass, field
from pathlib import Path

HOME = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!-- (file|varies|trained|illustration)(?:: (.*?))? -->\n+\Z")
NEEDS = re.compile(r"^<!-- needs: (.*?) -->$", re.MULTILINE)
PICTURE = re.compile(r"^<!-- picture: (.*?) -->\n+!\[[^]]*\]\((.*?)\)", re.MULTILINE)
PROGRESS = re.compile(r"\d+ of \d+ done")  # a line per minute, on slow machines only


@dataclass
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    start: int
    """Where its text begins in the page."""
    line: int
    marks: dict[str, str] = field(default_factory=dict)
    shows: int | None = None
    """Of an output: which block printed it."""


def blocks_of(page: str) -> list[Block]:
    """All fenced blocks with the marks above them."""
    found: list[Block] = []
    end = 0
    for match in FENCE.finditer(page):
        between, marks = page[end : match.start()], {}
        above = between
        while mark := MARK.search(above):
            marks[mark[1]] = mark[2] or ""
            above = above[: mark.start()]
        block = Block(match[1], match[2], match.start(2), page.count("\n", 0, match.start()) + 1, marks)
        if found and not match[1] and "illustration" not in marks and not above.strip():
            block.shows = len(found) - 1 if found[-1].language == "python" else None
            if block.shows is not None:
                marks |= {key: value for key, value in found[-1].marks.items() if key in ("varies", "trained")}
        found.append(block)
        end = match.end()
    return found


def kind_of(block: Block) -> str:
    """What becomes of a block: `file`, `illustration`, `console`, `python`, `output`, or `nothing`."""
    for mark in ("file", "illustration"):
        if mark in block.marks:
            return mark
    if block.language in ("console", "python"):
        return block.language
    return "nothing" if block.shows is None else "output"


def actual_blocks(page: str, pictures: Path | None = None) -> list[str]:
    """What each block of a page should be, by running it in a folder of its own; pictures are put beside the page."""
    with tempfile.TemporaryDirectory(prefix="page-") as place:
        folder = Path(place, "work")
        folder.mkdir()
        for name in NEEDS.findall(page):
            shutil.copy(HOME / name, folder)
        command = [sys.executable, "-W", "error::DeprecationWarning:__main__", __file__, "--run"]
        work = json.dumps([(kind_of(block), block.text, block.marks) for block in blocks_of(page)])
        done = subprocess.run(
            command, input=work, capture_output=True, text=True, cwd=folder, env=environment(Path(place)), timeout=1800
        )
        if done.returncode:
            raise RuntimeError(f"the page cannot be run:\n{done.stderr}")
        for made, shown in PICTURE.findall(page):
            data = (folder / made).read_bytes()
            if pictures is not None:
                (pictures / shown).write_bytes(data)
        outputs: list[str] = json.loads(done.stdout)
        return outputs


def environment(place: Path) -> dict[str, str]:
    """What commands see: 80 columns, no colours, `sojourn` of this interpreter."""
    programs = place / "bin"
    programs.mkdir()
    for name, words in (("sojourn", "-m sojourn "), ("python", "")):
        program = programs / name
        known = f'PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{HOME / "src"}"'  # a command may have set it
        program.write_text(f'#!/bin/sh\n{known} exec "{sys.executable}" {words}"$@"\n')
        program.chmod(0o755)
    path = os.pathsep.join([str(HOME / "src"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    found = {
        **os.environ,
        "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
        "PYTHONPATH": path,
        "COLUMNS": "80",
        "LC_ALL": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "PYTHONUNBUFFERED": "1",  # what goes to stderr stands where it was said
    }
    return {key: value for key, value in found.items() if key not in ("FORCE_COLOR", "CI")}


def run_all(work: list[tuple[str, str, dict[str, str]]]) -> list[str]:
    """Run blocks in this folder and interpreter; what each of them should be."""
    world: dict[str, object] = {"__name__": "__main__"}
    made: list[str] = []
    printed = ""
    for kind, text, marks in work:
        if kind == "file":
            Path(marks["file"]).write_text(text)
        if kind == "python":
            printed = printed_by(text, f"<block {len(made)}>", world)
        shown = run_console(text) if kind == "console" else printed if kind == "output" else text
        made.append(shown)
    return made


def run_console(text: str) -> str:
    """Commands with what they print now."""
    lines = []
    for command in commands_of(text):
        done = subprocess.run(
            ["sh", "-c", command.replace("\n> ", "\n")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        printed = [line.rstrip() for line in done.stdout.splitlines()]
        said = "\n".join(line for line in printed if not PROGRESS.fullmatch(line))
        lines.append(f"$ {command}\n{said}\n" if said else f"$ {command}\n")
        if done.returncode not in (0, 1, 2):
            raise RuntimeError(f"'{command}' ended with {done.returncode}:\n{done.stdout}")
    return "".join(lines)


def commands_of(text: str) -> list[str]:
    """The commands of a block; one that ends in a backslash goes on in the next line, behind `> `."""
    found: list[str] = []
    goes_on = False
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(line[2:])
        elif goes_on:
            found[-1] += f"\n{line}"
        goes_on = line.endswith("\\") and (goes_on or line.startswith("$ "))
    return found


def printed_by(code: str, name: str, world: dict[str, object]) -> str:
    """Run a block of Python: what it prints."""
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(code, name, "exec"), world)
    return "".join(f"{line.rstrip()}\n" for line in said.getvalue().splitlines())


def differences(page: str, outputs: list[str], exact: bool = True) -> list[str]:
    """Where a page shows something else than what came out; without `exact`, only the words of trained blocks count."""
    found = []
    for block, actual in zip(blocks_of(page), outputs, strict=True):
        shown, came = (masked(text, block, exact) for text in (block.text, actual))
        if shown != came:
            found.append(f"line {block.line}: the page shows\n{block.text}\nbut it is\n{actual}")
    return found


def masked(text: str, block: Block, exact: bool) -> str:
    """A text without what may differ. Where numbers do not count, only its words do, each once: a table of step sizes
    may be longer on another processor, where training rounds to other numbers.
    """
    if pattern := block.marks.get("varies"):
        text = re.sub(pattern, "<varies>", text)
    if "trained" in block.marks and not exact:
        text = " ".join(sorted(set(re.findall(r"[a-z]{2,}", text, re.IGNORECASE))))
    return text


def updated(page: str, outputs: list[str]) -> str:
    """The page with what came out."""
    for block, actual in reversed(list(zip(blocks_of(page), outputs, strict=True))):
        if masked(block.text, block, True) != masked(actual, block, True):
            page = page[: block.start] + actual + page[block.start + len(block.text) :]
    return page


def main(words: list[str]) -> int:
    """Check or update pages; `--run` is what the folder of a page is entered with."""
    if words == ["--run"]:
        try:
            print(json.dumps(run_all(json.load(sys.stdin))))
        except Exception:
            traceback.print_exc()  # with the lines of the page, which the interpreter does not show by itself
            return 1
        return 0
    differ = 0
    for name in (word for word in words if word != "--update"):
        path = Path(name)
        page = path.read_text("utf-8")
        outputs = actual_blocks(page, path.parent if "--update" in words else None)
        found = differences(page, outputs)
        if "--update" in words:
            path.write_text(updated(page, outputs), "utf-8")
            print(f"{name}: {len(found)} blocks rewritten")
        else:
            print(*found, f"{name}: {len(found)} blocks differ", sep="\n")
            differ += len(found)
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
