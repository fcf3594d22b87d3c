"""`sojourn live client` whose worker is no good.

python bad_client.py silent|nan|short CLIENT.toml
"""

import sys
import threading

import torch

from sojourn.cli.main import run
from sojourn.live.worker import FederationWorker

GOOD = 3  # tasks that it does first


def bad(kind, compute):
    def work(self, task):
        update = compute(self, task)
        if task.nth < GOOD:
            return update
        if kind == "silent":
            threading.Event().wait()
        wrong = torch.full_like(update.vector, torch.nan) if kind == "nan" else update.vector[:-1]
        return update.with_vector(wrong)

    return work


if __name__ == "__main__":
    FederationWorker.compute = bad(sys.argv.pop(1), FederationWorker.compute)
    sys.argv[1:1] = ["live", "client"]
    run()
