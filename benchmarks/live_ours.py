"""Our side of the live benchmark: a real live run, whose clients answer every task with a prepared gradient."""

import threading
from pathlib import Path

import torch
from live_process import START, Control

from sojourn.learning.replay.local import Update
from sojourn.learning.run.config import TrainConfig
from sojourn.live.engine import Work
from sojourn.live.engines.grpc.client import run_clients
from sojourn.live.loaded_keys import ClientKeys
from sojourn.live.run import LiveRun
from sojourn.live.serve import open_server
from sojourn.live.settings import ServerFile
from sojourn.live.worker import Task

LONG = 3600.0  # seconds that the server waits for an update: clients pause while the other side works
FOR_EVER = 10**9


class Prepared:
    """A worker that computes nothing."""

    examples = 0

    def __init__(self, gate: threading.Event) -> None:
        self._gate = gate

    def begin(self, client: int, work: Work) -> None:
        """Prepare the gradient that every task gets."""
        self._gradient, self._loss = torch.full((work.parameters,), 1e-6), torch.tensor(0.5)

    def compute(self, task: Task) -> Update:
        """Return it, as soon as it is this side's turn."""
        while not self._gate.wait(START):
            pass
        return Update(self._gradient, None, task.step_size, 1, self._loss)

    def service(self, client: int, nth: int) -> float:
        """Return 0: at once."""
        return 0.0


def configured(folder: Path, clients: int, hidden: int, steps: int = FOR_EVER) -> TrainConfig:
    """Return the run: C = n, at most one task per client."""
    fleet = folder / "fleet.csv"
    fleet.write_text(f"name,count,rate\nall,{clients},100\n")
    return TrainConfig(
        fleet=str(fleet),
        concurrency=clients,
        cap="1",
        partition="iid",
        model=f"mlp(hidden={hidden})",
        device="cpu",
        steps=steps,
        evaluate_every=FOR_EVER,
    )


def serve(control: Control, folder: str, keys: str, clients: int, hidden: int, steps: int = FOR_EVER) -> None:
    """Serve a live run until it ends or until told to end: C = n, at most one task per client."""
    config = configured(Path(folder), clients, hidden, steps)
    file = ServerFile("127.0.0.1:0", keys, out=str(Path(folder) / "run"), patience=LONG)
    with open_server(config, file) as run:
        control.ready(run.engine.address)

        def watch(run: LiveRun) -> None:
            control.steps = run.server.received

        run.run(control.stop, watch)


def join(control: Control, address: str, keys: str, clients: list[str]) -> None:
    """Run clients until the run ends or until told to end."""
    torch.set_num_threads(1)
    control.ready("")
    worker = Prepared(control.gate)
    mine = dict.fromkeys(clients, worker)
    control.ready(run_clients(address, mine, keys=ClientKeys.load(keys), stop=control.stop, patience=START))
