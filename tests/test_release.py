"""What is released: one version everywhere, no invented people or places, a wheel and an sdist that hold the same."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import sojourn

ROOT = Path(__file__).parent.parent
HEADING = re.compile(r"^## (\S+) \((unreleased|\d{4}-\d\d-\d\d)\)$", re.MULTILINE)
FRONT = ["README.md", "CONTRIBUTING.md", "CITATION.cff", "pyproject.toml", "papers/queuing_dynamics/pyproject.toml"]


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def disagreements(version: str, changelog: str, citation: str, tags: list[str]) -> list[str]:
    """What the version in the code, the changelog, the citation and the tags of the repository say otherwise."""
    sections, cited = HEADING.findall(changelog), yaml.safe_load(citation)
    newest, date = sections[0]
    released = None if date == "unreleased" else date
    found = []
    if newest != version:
        found.append(f"the changelog begins with {newest}, the code is {version}")
    if str(cited["version"]) != version:
        found.append(f"the citation is of {cited['version']}, the code is {version}")
    if str(cited.get("date-released")) != str(released):
        found.append(f"the citation was released {cited.get('date-released')}, the changelog says {date}")
    if any(day == "unreleased" for _, day in sections[1:]):
        found.append("a section below the newest is unreleased")
    dated = {f"v{name}" for name, day in sections if day != "unreleased"}
    return found + [f"tag {tag} has no dated section" for tag in tags if tag not in dated]


def test_the_version_is_the_same_in_code_changelog_citation_and_tags():
    listed = subprocess.run(["git", "tag", "--list", "v*"], cwd=ROOT, capture_output=True, text=True)
    tags = listed.stdout.split()  # none where there is no repository, as in an unpacked archive
    assert disagreements(sojourn.__version__, read("CHANGELOG.md"), read("CITATION.cff"), tags) == []


@pytest.mark.parametrize(
    ("changelog", "citation", "tags", "said"),
    [
        ("## 1.1 (unreleased)\n## 1.0 (2026-01-02)\n", 'version: "1.1"', ["v1.0"], []),
        ("## 1.1 (2026-02-03)\n", 'version: "1.1"\ndate-released: 2026-02-03', ["v1.1"], []),
        ("## 1.2 (unreleased)\n", 'version: "1.1"', [], ["the changelog begins with 1.2, the code is 1.1"]),
        ("## 1.1 (unreleased)\n", 'version: "1.0"', [], ["the citation is of 1.0, the code is 1.1"]),
        ("## 1.1 (unreleased)\n", 'version: "1.1"', ["v1.1"], ["tag v1.1 has no dated section"]),
        (
            "## 1.1 (unreleased)\n## 1.0 (unreleased)\n",
            'version: "1.1"\ndate-released: 2026-02-03',
            [],
            [
                "the citation was released 2026-02-03, the changelog says unreleased",
                "a section below the newest is unreleased",
            ],
        ),
    ],
)
def test_versions_that_disagree_are_found(changelog, citation, tags, said):
    assert disagreements("1.1", changelog, citation, tags) == said


def test_the_version_is_written_in_one_place():
    project = tomllib.loads(read("pyproject.toml"))
    assert "version" not in project["project"]
    assert read(project["tool"]["hatch"]["version"]["path"]).count(f'"{sojourn.__version__}"') == 1


def test_the_authors_are_nobody_invented():
    for name in ("pyproject.toml", "papers/queuing_dynamics/pyproject.toml"):
        assert tomllib.loads(read(name))["project"]["authors"] == [{"name": "The sojourn authors"}]
    assert yaml.safe_load(read("CITATION.cff"))["authors"] == [{"name": "The sojourn authors"}]


def test_no_address_is_given_but_that_of_pytorchs_wheels():
    names = [str(path.relative_to(ROOT)) for path in sorted((ROOT / ".github").rglob("*")) if path.is_file()]
    text = "\n".join(read(name) for name in [*FRONT, *names])
    assert set(re.findall(r"https?://([^/\s\"')]+)", text)) == {"download.pytorch.org"}
    assert re.findall(r"[\w.+-]+@[\w-]+\.\w+", text) == []  # letters by e-mail


def run(*command: str | Path, cwd: Path) -> str:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(command, cwd=cwd, env=plain, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def environment_with(folder: Path, *wanted: str | Path) -> Path:
    """The Python of a new environment that holds what is wanted, and not even pip."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", *wanted, cwd=folder)
    return python


def contents(wheel: Path) -> dict[str, int]:
    """Names in a wheel, each with the checksum of what it holds."""
    with zipfile.ZipFile(wheel) as packed:
        return {item.filename: item.CRC for item in packed.infolist()}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Our sdist, our wheel, and the wheel that is built from the unpacked sdist alone."""
    folder = tmp_path_factory.mktemp("built")
    python = environment_with(folder / "env", "-c", ROOT / "constraints.txt", "hatchling")
    run(python, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    sdist = next(folder.glob("sojourn-*.tar.gz"))
    with tarfile.open(sdist) as packed:
        packed.extractall(folder / "unpacked", filter="data")
    source = next((folder / "unpacked").iterdir())
    run(python, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "again", cwd=source)
    return sdist, next(folder.glob("*.whl")), next((folder / "again").glob("*.whl"))


@pytest.mark.slow
def test_the_sdist_builds_the_same_wheel(built):
    _, wheel, again = built
    assert wheel.name == again.name == f"sojourn-{sojourn.__version__}-py3-none-any.whl"
    assert contents(wheel) == contents(again)


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_source_and_no_other(built):
    source = ROOT / "src"
    files = {str(path.relative_to(source)) for path in (source / "sojourn").rglob("*") if path.is_file()}
    here = {name for name in files if "__pycache__" not in name}
    assert {name for name in contents(built[1]) if ".dist-info/" not in name} == here


@pytest.mark.slow
def test_the_wheel_holds_the_licence_of_every_script_of_others(built):
    for path in built[1:]:
        with zipfile.ZipFile(path) as wheel:
            of_others = [name for name in wheel.namelist() if "/vendor/" in name and not name.endswith(".py")]
            named = {name: f"{name.partition('.')[0]}.LICENSE" for name in of_others}
            assert any(name.endswith("uPlot.iife.min.js") for name in named)
            for licence in set(named.values()):
                said = wheel.read(licence).decode()
                assert "The MIT License" in said
                assert "Copyright (c)" in said
                assert "shall be included in all copies" in " ".join(said.split())


@pytest.mark.slow
def test_the_sdist_brings_licence_citation_and_changelog(built):
    with tarfile.open(built[0]) as packed:
        names = {name.split("/", 1)[1] for name in packed.getnames()}
    assert {"LICENSE", "CITATION.cff", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "pyproject.toml"} <= names


@pytest.mark.slow
def test_the_wheel_alone_plans_in_an_environment_that_has_no_other_sojourn(built, tmp_path):
    python = environment_with(tmp_path / "env", "--no-index", "--no-deps", built[1])
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "fleet.csv").write_text("name,count,rate\nfast,50,8\nslow,50,1\n")
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip())
    # What sojourn needs comes from our environment; a line in a .pth file does not make an editable install count.
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    place = run(python, "-c", "import sojourn; print(sojourn.__file__)", cwd=elsewhere).strip()
    assert Path(place) == packages / "sojourn" / "__init__.py"
    plan = json.loads(run(python, "-m", "sojourn", "plan", "fleet.csv", "--time", "1h", "--json", cwd=elsewhere))
    ours = [sys.executable, "-m", "sojourn", "plan", "fleet.csv", "--time", "1h", "--json"]
    assert plan == json.loads(subprocess.run(ours, cwd=elsewhere, capture_output=True, check=True).stdout)
