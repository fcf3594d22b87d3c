"""Milliseconds per gradient on a GPU: ResNet20 on CIFAR-10, 100 clients, several seeds in common waves.

    SOJOURN_DATA=data python benchmarks/gpu.py --seeds 10 --steps 1000 --out results

Timing begins when graphs are captured and every run has received `--warm` updates. Augmentation, data handling, server
updates and bookkeeping are in it. A second figure, `whole`, times the same runs as `sojourn train --seeds` does them,
from the first update to the last, with ten evaluations on the test set and checkpoints. With --profile a table of where
the time goes is written too.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import torch

from sojourn.experiments.training import open_run, simulated
from sojourn.learning.execute.executor import run_courses
from sojourn.learning.replay.replay import Replay
from sojourn.learning.run.build import Built, build
from sojourn.learning.run.config import TrainConfig
from sojourn.learning.run.trainer import together


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--warm", type=int, default=100)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--execution", default="auto")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("gpu-out"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    builts = prepare(arguments)
    replays = [Replay(one.algorithm, one.federation, simulated(one), one.setting, one.executor) for one in builts]
    print(f"prepared {len(replays)} runs in {time.perf_counter() - began:.1f} s", flush=True)
    waves = count_waves(replays)
    advance(replays, arguments.warm)
    print(f"warm after {time.perf_counter() - began:.1f} s", flush=True)
    waves.clear()
    synchronise()
    begin = time.perf_counter()
    advance(replays, arguments.warm + arguments.steps)
    synchronise()
    spent = time.perf_counter() - begin
    gradients = arguments.steps * len(replays)
    facts = {
        "ms_a_gradient": 1000 * spent / gradients,
        "gradients": gradients,
        "mean_wave": sum(waves) / len(waves),
        "waves": len(waves),
        "ms_a_gradient_whole": whole(builts, arguments) if arguments.whole else None,
        "gib": torch.cuda.max_memory_reserved() / 2**30 if torch.cuda.is_available() else None,
        "torch": torch.__version__,
        "loss": replays[0].tally.loss / replays[0].received,
        **{key: str(value) for key, value in vars(arguments).items()},
    }
    print(json.dumps(facts), flush=True)
    with (arguments.out / "gpu.jsonl").open("a") as file:
        file.write(json.dumps(facts) + "\n")
    if arguments.profile:
        profile(replays, arguments)


def prepare(arguments: argparse.Namespace) -> list[Built]:
    half = arguments.clients // 2
    fleet = arguments.out / "fleet.csv"
    fleet.write_text(f"name,count,rate\nfast,{arguments.clients - half},4\nslow,{half},1\n")
    builts: list[Built] = []
    for seed in range(arguments.seeds):
        config = TrainConfig(
            fleet=str(fleet),
            data=arguments.data,
            partition="classes(k=7)",
            model=arguments.model,
            batch_size=arguments.batch,
            augment="crop-flip" if arguments.data != "digits" else "none",
            step_size=0.05,
            steps=arguments.warm + arguments.steps + 100,
            seed=seed,
            precision=arguments.precision,
            device=arguments.device,
            execution=arguments.execution,
        )
        builts.append(build(config, like=builts[0] if builts else None))
    return builts


def whole(builts: list[Built], arguments: argparse.Namespace) -> float:
    """Time the runs as the command line trains them, on graphs that are already captured."""
    with tempfile.TemporaryDirectory() as folder:
        config = {"steps": arguments.steps, "evaluate_every": max(1, arguments.steps // 10)}
        runs = [
            open_run(one.config.resolved(**config), Path(folder) / str(number), like=builts[0])
            for number, one in enumerate(builts)
        ]
        synchronise()
        begin = time.perf_counter()
        together(runs)
        synchronise()
        return 1000 * (time.perf_counter() - begin) / (arguments.steps * len(runs))


def advance(replays: list[Replay], received: int) -> None:
    run_courses([(replay.course(received), replay.executor) for replay in replays])
    for replay in replays:
        replay.settle()


def count_waves(replays: list[Replay]) -> list[int]:
    """Record the sizes of the waves that the executor gets from now on."""
    sizes: list[int] = []
    executor = replays[0].executor
    compute = executor.compute

    def counted(jobs):
        sizes.append(len(jobs))
        return compute(jobs)

    executor.compute = counted
    return sizes


def synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


KINDS = {
    "convolutions, forward and of their inputs": ("convolve", "input_gradient", "fprop", "dgrad", "conv"),
    "gradients of convolution kernels": ("kernel_gradient", "wgrad", "reduce_kernel"),
    "GroupNorm with the sum and cut after it": ("normalise",),
    "the rest of the network": ("triton_", "gemm", "cutlass", "softmax"),
    "batches: gathered, cropped, flipped, scaled": ("index", "addcmul", "arange", "where"),
    "server: steps, sizes of updates": ("dot_kernel", "reduce_1Block", "CUDAFunctor_add"),
}


def kind_of(kernel: str) -> str:
    for kind, words in KINDS.items():
        if any(word in kernel for word in words):
            return kind
    return "copies into graphs and out of them, and what else there is"


def by_kind(taken: torch.profiler.profile) -> str:
    """Return the time of the device by kind of work, as a table; only kernels count, not the calls that start them."""
    spent: dict[str, float] = {}
    for event in taken.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            spent[kind_of(event.name)] = spent.get(kind_of(event.name), 0.0) + event.time_range.elapsed_us()
    total = sum(spent.values())
    rows = sorted(spent.items(), key=lambda row: -row[1])
    return "\n".join(
        ["| kind | ms | share |", "|---|---|---|"]
        + [f"| {kind} | {value / 1000:.2f} | {value / total:.1%} |" for kind, value in rows]
    )


def profile(replays: list[Replay], arguments: argparse.Namespace) -> None:
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as taken:
        advance(replays, arguments.warm + arguments.steps + 20)
        synchronise()
    (arguments.out / "profile.md").write_text(by_kind(taken) + "\n")
    table = taken.key_averages().table(sort_by="self_cuda_time_total", row_limit=40, max_name_column_width=70)
    (arguments.out / "profile-device.txt").write_text(table)
    table = taken.key_averages().table(sort_by="self_cpu_time_total", row_limit=30, max_name_column_width=70)
    (arguments.out / "profile-host.txt").write_text(table)


if __name__ == "__main__":
    main()
