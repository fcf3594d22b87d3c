"""Clients from Python with objects: data of their own, or a training loop of their own, against a real server."""

import socket
import threading

import numpy as np
import pytest
import torch
from torch import nn

import sojourn as sj
import sojourn.live
from sojourn.errors import InvalidInput, SojournError

FLEET = sj.Fleet.of(all=(2, 50.0))


def net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Linear(3, 2)


def examples(client: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(client).standard_normal((200, 3)).astype(np.float32)
    return x, (x[:, 0] > 0).astype(np.int64)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def fit(module: nn.Module, task: object) -> float:
    x, y = (torch.from_numpy(one) for one in examples(1))
    optimiser = torch.optim.SGD(module.parameters(), lr=task.step_size)
    loss = nn.functional.cross_entropy(module(x), y)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return loss.item()


def test_a_client_with_data_and_one_with_a_loop_of_its_own_train_one_model(tmp_path):
    address, found = f"127.0.0.1:{free_port()}", {}

    def take_part(name: str, **how: object) -> None:
        found[name] = sojourn.live.client(address, net(), name=name, give_up=30.0, **how)

    threads = [
        threading.Thread(target=take_part, args=("data",), kwargs={"data": examples(0)}),
        threading.Thread(target=take_part, args=("loop",), kwargs={"fit": fit}),
    ]
    for one in threads:
        one.start()
    run = sj.serve(
        FLEET, folder=tmp_path / "live", address=address, model=net(), data=examples(5), steps=60, cap=1, step_size=0.5
    )
    for one in threads:
        one.join(30)
    assert run.complete
    assert run.last["accuracy"] > 0.9
    assert set(run.trace.client.tolist()) == {0, 1}
    assert min(found["data"]["acknowledged"], found["loop"]["acknowledged"]) > 5


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({}, "give data, or fit"),
        ({"data": examples(0), "fit": fit}, "give data, or fit"),
        ({"model": "mlp", "fit": fit}, "model must be an nn.Module, got str"),
        ({"fit": fit, "name": None}, "needs a name"),
    ],
)
def test_what_a_client_lacks_is_said_before_it_dials(how, why):
    with pytest.raises(InvalidInput, match=why):
        sojourn.live.client("127.0.0.1:9", **{"model": net(), "name": "a", **how})


def test_a_client_that_reaches_no_server_gives_up():
    with pytest.raises(SojournError, match=r"127\.0\.0\.1"):
        sojourn.live.client(f"127.0.0.1:{free_port()}", net(), name="a", fit=fit, give_up=0.5)
