"""Flower's simulation on ray: federated averaging of 100 clients per round, one actor, without evaluation."""

import logging
import os
from time import perf_counter

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from train_plain import BATCH, CLIENTS, HELD, RATE, beside, cnn, examples

client = ClientApp()
server = ServerApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    """One local step."""
    torch.set_num_threads(1)
    first = int(context.node_config["partition-id"]) * HELD
    x, y = (part[first : first + BATCH] for part in examples())
    module = cnn()
    module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    step = torch.optim.SGD(module.parameters(), lr=RATE)
    torch.nn.functional.cross_entropy(module(x), y).backward()
    step.step()
    metrics = MetricRecord({"num-examples": HELD})
    return Message(RecordDict({"arrays": ArrayRecord(module.state_dict()), "metrics": metrics}), reply_to=message)


@server.main()
def serve(grid: Grid, context: Context) -> None:
    """Rounds of all clients."""
    torch.set_num_threads(1)
    strategy = FedAvg(fraction_train=1.0, fraction_evaluate=0.0, min_available_nodes=CLIENTS)
    arrays = ArrayRecord(cnn().state_dict())

    def advance(updates: int) -> None:
        nonlocal arrays
        arrays = strategy.start(grid, arrays, num_rounds=updates // CLIENTS).arrays

    beside("Flower, FedAvg, 100 clients a round", "flwr", advance, rounds=5, updates=CLIENTS, clock=perf_counter)
    first, last = cnn().state_dict(), arrays.to_torch_state_dict()
    assert not any(torch.equal(first[key], last[key]) for key in first), "the clients have not trained"


if __name__ == "__main__":
    os.environ["FLWR_TELEMETRY_ENABLED"] = os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    logging.getLogger("flwr").setLevel(logging.ERROR)
    one_actor = {"init_args": {"num_cpus": 1}, "client_resources": {"num_cpus": 1}}
    run_simulation(server, client, num_supernodes=CLIENTS, backend_config=one_actor)
