"""The tutorial and the guides: every command and every block of code does what the page shows."""

import json
import re
import subprocess
import sys
from pathlib import Path

import console
import pytest
from console import HOME, actual_blocks, blocks_of, commands_of, differences, kind_of, updated

from same_numbers import RECORDED, machine

DOCS = HOME / "docs"
PAGES = ("tutorial", "own-model-and-data", "choosing-a-policy", "compare", "many-machines")
RECORDER = json.loads(RECORDED.read_text("utf-8"))["machine"]


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_what_its_commands_and_code_print(name):
    page = (DOCS / f"{name}.md").read_text("utf-8")
    found = differences(page, actual_blocks(page), exact=machine() == RECORDER)
    assert not found, f"python tests/docs/console.py docs/{name}.md --update\n" + "\n".join(found)


@pytest.mark.parametrize("name", PAGES)
def test_every_block_of_a_page_is_run_or_said_to_be_an_illustration(name):
    blocks = blocks_of((DOCS / f"{name}.md").read_text("utf-8"))
    assert blocks
    assert [f"line {block.line}" for block in blocks if kind_of(block) == "nothing"] == []


@pytest.mark.parametrize("name", PAGES)
def test_pages_can_be_read_in_a_terminal_of_100_columns(name):
    lines = (DOCS / f"{name}.md").read_text("utf-8").splitlines()
    assert [line for line in lines if len(line) > 100] == []


@pytest.mark.parametrize("name", PAGES)
def test_links_to_other_files_lead_somewhere(name):
    for target in re.findall(r"\]\(([^)#:\s]+)", (DOCS / f"{name}.md").read_text("utf-8")):
        assert (DOCS / target).exists(), target


def test_the_log_of_the_tutorial_is_what_its_script_prints():
    script = HOME / "examples" / "tutorial" / "make_log.py"
    made = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=True).stdout
    assert made == (script.parent / "log.csv").read_text("utf-8")


PAGE = """# Page

```console
$ echo one; echo two >&2
$ echo a \\
>     b
```

<!-- file: said.txt -->

```text
written
```

```python
known = len(open("said.txt").read())
print("known:", known)
```

```
```

<!-- varies: [0-9.]+ s -->

```console
$ echo took 1.5 s
took 99 s
```

<!-- illustration -->

```console
$ rm -rf everything
```
"""


def test_a_page_is_filled_with_what_comes_out():
    filled = updated(PAGE, actual_blocks(PAGE))
    assert "$ echo one; echo two >&2\none\ntwo\n$ echo a \\\n>     b\na b\n" in filled
    assert "```\nknown: 8\n```" in filled
    assert "took 99 s" in filled  # what may vary is left as it is
    assert differences(filled, actual_blocks(filled)) == []


def test_a_page_that_shows_something_else_is_found_out():
    filled = updated(PAGE, actual_blocks(PAGE)).replace("known: 8", "known: 9")
    [found] = differences(filled, actual_blocks(filled))
    assert "known: 9" in found
    assert "but it is\nknown: 8" in found


def test_code_that_fails_is_told_with_its_line():
    with pytest.raises(RuntimeError, match=r"print\(unknown\)"):
        actual_blocks("```python\nx = 1\nprint(unknown)\n```\n")


def test_numbers_of_trained_blocks_count_on_the_machine_that_wrote_them_only():
    page = "<!-- trained -->\n\n```console\n$ echo loss 1.5\nloss 1.52\n```\n"
    outputs = actual_blocks(page)
    assert differences(page, outputs, exact=False) == []
    assert len(differences(page, outputs, exact=True)) == 1
    assert len(differences(page.replace("loss 1.52", "gain 1.52"), outputs, exact=False)) == 1


def test_lines_of_progress_that_only_slow_machines_print_are_left_out():
    page = "```console\n$ echo 12 of 60 done; echo result\nresult\n```\n"
    assert differences(page, actual_blocks(page)) == []


def test_what_is_said_of_code_holds_for_what_it_prints():
    page = '<!-- trained -->\n\n```python\nprint("loss", 1.5)\n```\n\n```\nloss 1.52\n```\n'
    outputs = actual_blocks(page)
    assert differences(page, outputs, exact=False) == []
    assert len(differences(page, outputs, exact=True)) == 1


def test_a_command_may_take_several_lines():
    assert commands_of("$ a \\\n>   b\nout\n$ c\n") == ["a \\\n>   b", "c"]


def test_the_script_rewrites_a_page_and_says_how_much(tmp_path, capsys):
    path = Path(tmp_path, "page.md")
    path.write_text("```console\n$ echo new\nold\n```\n")
    assert console.main([str(path)]) == 1
    assert console.main([str(path), "--update"]) == 0
    assert console.main([str(path)]) == 0
    assert path.read_text() == "```console\n$ echo new\nnew\n```\n"
    assert "1 blocks rewritten" in capsys.readouterr().out
