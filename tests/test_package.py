"""The package as a whole: what importing loads, what the README promises, what a wheel holds."""

import csv
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import sojourn

ROOT = Path(__file__).parent.parent
HEAVY = ("torch", "sklearn", "matplotlib", "scipy.optimize", "numba", "ray", "joblib", "flwr")
NETWORK = ("grpc", "google.protobuf", "cryptography")  # of the extra `live`


def _loaded_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import sojourn",
        "from sojourn import Fleet, Plan; Plan.uniform(Fleet.of(a=(2, 1.0)), 3)",
        "sys.argv = ['sojourn', '--help']\nfrom sojourn.cli.main import app\ntry:\n  app()\nexcept SystemExit: pass",
        "from sojourn.cli.main import app\ntry:\n  app(['live', 'keys', '--help'])\nexcept SystemExit: pass",
    ],
    ids=["import", "nouns", "help", "help of a group"],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(code):
    assert not _loaded_after(code) & {*HEAVY, *NETWORK, "sojourn.live"}


def test_every_public_name_is_there_and_documented():
    assert len(sojourn.__all__) <= 47
    for name in sojourn.__all__:
        value = getattr(sojourn, name)
        assert name == "__version__" or value.__doc__


def test_an_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sojourn.nothing


def test_the_readme_code_runs_as_printed(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert blocks
    place = {"__name__": "__main__"}  # one after the other, as in a notebook
    for block in blocks:
        exec(compile(block, "README.md", "exec"), place)
    out = capsys.readouterr().out
    printed = re.findall(r"```\n(robust.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)[0]
    assert out.startswith(printed)
    assert "<Run of generalized-asyncsgd on mine-" in out


def test_the_files_in_the_documentation_are_valid(tmp_path):
    text = (ROOT / "docs" / "files.md").read_text("utf-8")
    (tmp_path / "fleet.csv").write_text(re.findall(r"```csv\n(.*?)```", text, re.DOTALL)[0])
    (tmp_path / "fleet.toml").write_text(re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0])
    assert sojourn.Fleet.load(tmp_path / "fleet.csv").clients == 1000
    assert sojourn.Fleet.load(tmp_path / "fleet.toml").law[0] == sojourn.Law("lognormal", 0.8)


def rows_of(text):
    """Rows of tables, cell by cell."""
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line[:2] == "| "]


def test_the_results_of_the_readme_are_those_of_the_page_on_the_paper():
    with (ROOT / "docs" / "results" / "paper" / "cifar10.csv").open(encoding="utf-8", newline="") as file:
        claims = list(csv.DictReader(file))
    page = {(row["statement"].removesuffix(", tuned for virtual time 1400"), row["ours"]) for row in claims}
    pays = (ROOT / "docs" / "does-it-pay.md").read_text("utf-8").partition("<!-- made: cifar-long -->")[2]
    trained = {(row[2], row[3]) for row in rows_of(pays) if "%" in row[-2]}
    shown = [tuple(row) for row in rows_of((ROOT / "README.md").read_text("utf-8")) if "%" in row[-1]]
    assert len(shown) == 5
    falls = [row for row in shown if "step falls to zero" in row[0]]
    assert len(falls) == 3
    assert {row[1:] for row in falls} <= trained
    others = [(row[0], f"{row[1]} / {row[2]}") for row in shown if row not in falls]
    assert [row for row in others if row not in page] == []
    assert all("/" not in cell for row in shown for cell in row[1:])  # one fact per cell


def test_the_extras_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert {"train", "sweep", "ray", "flower", "live", "report", "dev"} <= set(project["optional-dependencies"])
    assert not any("torch" in needed for needed in project["dependencies"])


@pytest.mark.slow
def test_the_wheel_holds_code_alone_and_results_are_in_the_wheel_of_the_paper(tmp_path):
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", tmp_path]
    paper = ROOT / "papers" / "queuing_dynamics"
    subprocess.run([*build, ROOT, paper], check=True)
    ours, theirs = (next(tmp_path.glob(f"{name}-*.whl")) for name in ("sojourn", "queuing_dynamics"))
    # code alone, of which a real federation is about 150 kB and pages are about 180; results would make 1.3 MB more
    assert ours.stat().st_size < 2_000_000
    held = [set(zipfile.ZipFile(wheel).namelist()) for wheel in (ours, theirs)]
    assert {name.split("/")[0].split("-")[0] for name in held[0]} == {"sojourn"}
    inside = {Path(name).suffix for name in held[0] if not name.split("/")[0].endswith(".dist-info")}
    assert inside == {".py", ".typed", ".proto", ".html", ".css", ".js", ".LICENSE"}
    results = {str(path.relative_to(paper / "src")) for path in paper.glob("src/queuing_dynamics/results/**/*.csv")}
    assert len(results) == 10
    assert results <= held[1]


@pytest.mark.slow
def test_a_built_wheel_installs_and_runs_in_an_empty_environment(tmp_path):
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", tmp_path, ROOT], check=True)
    wheel = next(tmp_path.glob("sojourn-*.whl"))
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel], check=True)
    (tmp_path / "fleet.csv").write_text("name,count,rate\nfast,5,1.2\nslow,5,1\n")

    def call(*words: str) -> str:
        command = [tmp_path / "env" / "bin" / "sojourn", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert call("--version") == f"sojourn {sojourn.__version__}\n"
    assert "48.7922" in call("analyze", "fleet.csv", "-C", "1000")
    assert "simulated" in call("simulate", "fleet.csv", "--steps", "1e5", "--out", "run")
    probe = "import importlib.util as u; print(u.find_spec('torch'), u.find_spec('matplotlib'))"
    assert subprocess.run([python, "-c", probe], capture_output=True, text=True).stdout == "None None\n"
    assert (tmp_path / "run" / "trace.parquet").exists()
    alone = subprocess.run([tmp_path / "env" / "bin" / "sojourn", "reproduce", "all"], capture_output=True, text=True)
    assert (alone.returncode, alone.stdout) == (2, "")
    assert alone.stderr.startswith("error: no paper to reproduce is installed; pip install ")


@pytest.mark.slow
def test_the_demo_runs_and_writes_traces_and_pictures(tmp_path):
    command = [sys.executable, ROOT / "examples" / "demo.py", "--out", tmp_path, "--steps", "50000"]
    narrow = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=narrow)
    assert "1949.21" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert len(list(tmp_path.glob("*.parquet"))) == 4
    told = f"Open {tmp_path / 'report.html'} in a browser"  # a long path goes over several lines
    assert "".join(told.split()) in "".join(done.stdout.split())
    assert "planned" in (tmp_path / "report.html").read_text("utf-8")
    for name in ("two-clusters", "three-clusters"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
        assert (tmp_path / f"{name}.svg").stat().st_size > 10_000
