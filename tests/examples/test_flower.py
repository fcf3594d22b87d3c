"""An app of Flower becomes one of sojourn by changing a few lines."""

from difflib import SequenceMatcher
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "examples" / "flower"


def files_of(folder):
    kept = [path for path in sorted(folder.rglob("*")) if path.suffix in (".py", ".toml")]
    return {path.relative_to(folder): path.read_text().splitlines() for path in kept}


def test_an_app_is_converted_with_fewer_than_twenty_lines():
    before, after = files_of(FOLDER / "before"), files_of(FOLDER / "after")
    assert before.keys() == after.keys()
    written = removed = 0
    for name, old in before.items():
        for kind, i1, i2, j1, j2 in SequenceMatcher(None, old, after[name], autojunk=False).get_opcodes():
            if kind != "equal":
                removed, written = removed + sum(map(bool, old[i1:i2])), written + sum(map(bool, after[name][j1:j2]))
    assert (written, removed) == (12, 15)  # docs/flower.md says so; lines that are not empty


def test_the_training_and_the_data_of_a_converted_app_are_as_they_were():
    task = Path("digits_app", "task.py")
    assert files_of(FOLDER / "before")[task] == files_of(FOLDER / "after")[task]
