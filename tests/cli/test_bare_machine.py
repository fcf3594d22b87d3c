"""Training needs few packages: it runs where nothing but these is installed, as on many GPU machines."""

import json
import subprocess
import sys

import pytest

HIDDEN = ("pydantic", "ray", "flwr", "starlette", "plotly", "pooch", "tensorboard", "triton", "mlflow", "wandb")
PROGRAM = """
import importlib.util, runpy, sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if any(name == one or name.startswith(one + ".") for one in {hidden!r}):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

importlib.util.find_spec = lambda name, find=importlib.util.find_spec: None if name in {hidden!r} else find(name)
sys.meta_path.insert(0, Hidden())
sys.argv = ["sojourn", *{arguments!r}]
runpy.run_module("sojourn", run_name="__main__", alter_sys=True)
"""


def run(*arguments):
    program = PROGRAM.format(hidden=HIDDEN, arguments=arguments)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.slow
def test_the_module_trains_and_draws_with_the_other_packages_hidden(tmp_path):
    (tmp_path / "fleet.csv").write_text("name,count,rate\nfast,3,4\nslow,3,1\n")
    options = ["--steps", "12", "--batch-size", "8", "--model", "cnn(channels=4)", "--pictures", "--json"]
    made = run("train", str(tmp_path / "fleet.csv"), *options, "--out", str(tmp_path / "run"))
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["received"] == 12
    assert (tmp_path / "run" / "curves.png").is_file()


def test_what_is_hidden_is_really_hidden():
    made = run("train", "--tensorboard", "--help")
    assert made.returncode == 0, made.stderr
    program = PROGRAM.format(hidden=("torch",), arguments=("train", "no-such-fleet.csv"))
    refused = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert "training needs PyTorch, which is not installed" in refused.stderr + refused.stdout
