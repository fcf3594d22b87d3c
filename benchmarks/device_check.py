"""Do devices, precisions and ways of computing agree? Digits, a small CNN, the same seeds everywhere.

    python benchmarks/device_check.py --device cuda --out results

It trains the same seeds on the CPU, one by one in single precision, and on the device in each precision, and prints the
mean final test loss and the paired difference with its standard error. Then the comparison on the device is stopped in
the middle, resumed, and compared with the one that was never stopped. It also runs on `--device cpu`.
"""

import argparse
import contextlib
import json
import math
import shutil
from pathlib import Path

import torch

from sojourn.experiments.training import open_run
from sojourn.learning.run.config import TrainConfig
from sojourn.learning.run.trainer import Trainer, together

VARIANTS = {"cuda": ("fp32", "tf32", "bf16"), "cpu": ("fp32", "bf16")}


class Stopped(Exception):
    """The comparison was stopped."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--out", type=Path, default=Path("check-out"))
    arguments = parser.parse_args()
    shutil.rmtree(arguments.out / "runs", ignore_errors=True)
    rows = agreement(arguments)
    rows.append(resumed(arguments))
    for row in rows:
        print(json.dumps(row), flush=True)
    (arguments.out / "device-check.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def runs(arguments: argparse.Namespace, name: str, resume: bool = False, **options: str) -> list[Trainer]:
    folder = arguments.out / "runs" / name
    folder.mkdir(parents=True, exist_ok=True)
    fleet = arguments.out / "fleet.csv"
    fleet.write_text("name,count,rate\nfast,5,4\nslow,5,1\n")
    made: list[Trainer] = []
    for seed in range(arguments.seeds):
        config = TrainConfig(
            str(fleet), model=arguments.model, steps=arguments.steps, step_size=0.1, partition="classes(k=3)",
            seed=seed, **options,
        )  # fmt: skip
        made.append(open_run(config, folder / f"seed-{seed}", resume, like=made[0].built if made else None))
    return made


def agreement(arguments: argparse.Namespace) -> list[dict]:
    def losses(name: str, **options: str) -> list[float]:
        return [float(outcome.metrics["test_loss"]) for outcome in together(runs(arguments, name, **options))]

    base = losses("reference", device="cpu", execution="one-by-one")
    rows = [{"variant": "cpu fp32 one-by-one", "test_loss": mean(base)}]
    for precision in VARIANTS[arguments.device]:
        execution = "waves" if (arguments.device, precision) != ("cpu", "bf16") else "one-by-one"
        found = losses(precision, device=arguments.device, precision=precision, execution=execution)
        apart = [one - other for one, other in zip(found, base, strict=True)]
        rows.append(
            {
                "variant": f"{arguments.device} {precision} {execution}",
                "test_loss": mean(found),
                "difference": mean(apart),
                "standard_error": error(apart),
                "seeds_spread": error(base) * math.sqrt(len(base)),
            }
        )
    return rows


def resumed(arguments: argparse.Namespace) -> dict:
    """Stop the comparison twice, resume it, and compare its models to those of the one that was not stopped."""
    precision = VARIANTS[arguments.device][-1] if arguments.device == "cuda" else "fp32"
    options = {"device": arguments.device, "precision": precision, "execution": "waves"}
    total = arguments.seeds * arguments.steps

    def until(limit: float):
        def look(done: int, _: int, facts: dict) -> None:
            if done >= limit:
                raise Stopped

        return look

    for share in (0.35, 0.7):
        begun = runs(arguments, "stopped", resume=True, **options)
        with contextlib.suppress(Stopped):
            together(begun, checkpoint_every=20, progress=until(share * total))
    finished = together(runs(arguments, "stopped", resume=True, **options))
    folder = arguments.out / "runs"
    files = [
        [(folder / name / one.folder.name / "model.safetensors").read_bytes() for one in finished]
        for name in (precision, "stopped")
    ]
    same = sum(one == other for one, other in zip(*files, strict=True))
    summaries = [json.loads((folder / precision / one.folder.name / "summary.json").read_text()) for one in finished]
    apart = [
        abs(float(one.metrics["test_loss"]) - float(summary["test_loss"]))
        for one, summary in zip(finished, summaries, strict=True)
    ]
    return {
        "variant": f"{arguments.device} {precision}, stopped twice and resumed",
        "runs": len(finished),
        "same_bits": same,
        "largest_difference_of_test_loss": max(apart),
    }


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def error(values: list[float]) -> float:
    middle = mean(values)
    return math.sqrt(sum((value - middle) ** 2 for value in values) / (len(values) - 1) / len(values))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
