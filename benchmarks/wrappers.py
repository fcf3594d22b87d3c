"""What wrappers cost and save: accuracy, bits and epsilon on digits, as the table of docs/wrappers.md.

python benchmarks/wrappers.py [--seeds 2]
python benchmarks/wrappers.py --wire        # what an update takes on the way in a live run
"""

import argparse

import numpy as np
import torch

from sojourn import Fleet, train

FLEET = Fleet.of(fast=(60, 4.0), slow=(40, 1.0))
RUN = {"partition": "classes(k=3)", "steps": 1000, "local_steps": 5, "batch_size": 8, "concurrency": 50}
WRAPS = (
    None,
    "topk(share=0.1)",
    "topk(share=0.01)",
    "topk(share=0.01, feedback=false)",
    "qsgd(levels=7)",
    "topk(share=0.1); qsgd(levels=7)",
    "sign",
    "sign(feedback=false)",
    "lowrank(rank=2)",
    "subset(names=3.*)",
    "lora(rank=4, scale=1)",
    "gaussian(clip=1, noise=0)",
    "gaussian(clip=1, noise=0.05)",
    "gaussian(clip=1, noise=0.2)",
    "gaussian(clip=1, noise=0.05); topk(share=0.1)",
)


def main() -> None:
    """Train and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--wire", action="store_true")
    arguments = parser.parse_args()
    if arguments.wire:
        on_the_wire()
        return
    seeds = range(arguments.seeds)
    print("| wrap | accuracy | Mbit up | Mbit down | epsilon |\n|---|---|---|---|---|")
    for wrap in WRAPS:
        keys = {**RUN, "algorithm": "fedbuff(size=10)", "wrap": wrap, "step_size": 0.2}
        rows = [train(FLEET, seed=seed, progress=False, **keys).last for seed in seeds]
        accuracy = [row["accuracy"] for row in rows]
        up, down = (np.mean([row[key] for row in rows]) / 1e6 for key in ("bits_up", "bits_down"))
        epsilon = np.mean([row["epsilon"] for row in rows]) if "epsilon" in rows[0] else None
        told = "" if epsilon is None else "no bound" if np.isinf(epsilon) else f"{epsilon:,.0f}"
        spread = f"{np.mean(accuracy):.3f} ({np.std(accuracy):.3f})"
        name = "none" if wrap is None else f"`{wrap}`"
        print(f"| {name} | {spread} | {up:.1f} | {down:.1f} | {told} |", flush=True)


def on_the_wire() -> None:
    """Print bits per number of a million random ones: what a wrapper counts, and what travels in a live run."""
    from sojourn.learning.replay.local import Update
    from sojourn.learning.wrappers.table import wrapper
    from sojourn.live.engines.grpc.packing import packed
    from sojourn.live.engines.grpc.wire import Payload

    numbers = torch.randn(1_000_000, generator=torch.Generator().manual_seed(0))
    print("| wrap | bits counted | bits on the wire |\n|---|---|---|")
    for text in ("topk(share=0.01)", "topk(share=0.1)", "sign", "qsgd(levels=7)", "qsgd(levels=15)"):
        _, update = wrapper(text).leave(None, Update(None, numbers, 1.0, 1, None))
        sent = packed(Payload(update.vector), 4)
        print(f"| `{text}` | {update.bits / numbers.numel():.2f} | {8 * sent.size / numbers.numel():.2f} |")


if __name__ == "__main__":
    main()
