"""Stacked models computed as one: the same gradients as each by itself."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from sojourn.learning.data.dataset import Dataset
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.execute.stacked.network import losses, predict, stackable, stacked_values
from sojourn.learning.models.load import load_model

torch.set_num_threads(1)
_RNG = np.random.default_rng(0)
DATA = Dataset(
    "images", _RNG.normal(size=(40, 3, 8, 8)), np.arange(40) % 10, np.zeros((1, 3, 8, 8)), np.zeros(1, int), classes=10
)
STACKABLE = [
    "resnet20(width=4)",
    "resnet20(width=4, norm=batch)",
    "resnet20(width=6, norm=none)",
    "resnet18(width=8)",
    "cnn(channels=4)",
    "cnn(channels=3, norm=batch)",
    "cnn(channels=4, norm=none)",
    "mlp(hidden=7)",
    "logistic",
]


def model_of(text):
    return FlatModel(load_model(text, DATA, "images", 0, torch.float64))


def three_of(model):
    torch.manual_seed(1)
    points = [model.params + 0.05 * torch.randn_like(model.params) for _ in range(3)]
    x = torch.tensor(DATA.train_x[:24].reshape(3, 8, 3, 8, 8), dtype=torch.float64)
    y = torch.tensor(DATA.train_y[:24].reshape(3, 8))
    return torch.stack(points), x, y


@pytest.mark.parametrize("text", STACKABLE)
def test_stacked_models_have_the_gradients_losses_and_statistics_of_each_by_itself(text):
    model = model_of(text)
    assert stackable(model)
    points, x, y = three_of(model)
    stats = model.stats.expand(3, -1).clone()
    leaf = points.clone().requires_grad_()
    values = stacked_values(model, leaf, stats)
    found = losses(model.module, values, x, y)
    slopes = torch.autograd.grad(found.sum(), leaf)[0]
    kept = [name for name, buffer in model.module.named_buffers() if buffer.is_floating_point()]
    for row in range(3):
        model.begin(stats[row])
        gradient, loss = model.gradient(points[row], x[row], y[row])
        torch.testing.assert_close(slopes[row], gradient, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(found[row].detach(), loss, rtol=1e-12, atol=0)
        if kept:
            moved = torch.cat([values[name][row] for name in kept])
            torch.testing.assert_close(moved, model.stats, rtol=1e-12, atol=1e-14)
            assert not torch.equal(moved, stats[row])


@pytest.mark.parametrize("text", ["resnet20(width=4, norm=batch)", "cnn(channels=4)"])
def test_in_evaluation_stacked_models_predict_what_each_by_itself_predicts(text):
    model = model_of(text)
    points, x, _ = three_of(model)
    stats = torch.rand(3, model.stats.numel(), dtype=torch.float64) + 0.5
    model.module.eval()
    with torch.no_grad():
        found = predict(model.module, stacked_values(model, points, stats), x)
        for row in range(3):
            expected = model.at(points[row], stats[row])(x[row])
            torch.testing.assert_close(found[row], expected, rtol=1e-9, atol=1e-12)


class Strange(torch.nn.Module):
    """A layer that nobody knows."""

    def forward(self, x):
        return x.flatten(1)[:, :10]


def test_a_network_with_an_unknown_layer_or_many_channels_or_a_loss_of_its_own_is_not_stacked():
    linear = torch.nn.Linear(10, 10)
    assert not stackable(FlatModel(torch.nn.Sequential(Strange(), linear)))
    assert not stackable(FlatModel(torch.nn.Sequential(torch.nn.Conv2d(3, 65, 3, padding=1), linear)))
    assert not stackable(FlatModel(torch.nn.Sequential(torch.nn.Conv2d(3, 8, 5, padding=2), linear)))
    assert not stackable(FlatModel(torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=0), linear)))
    assert not stackable(FlatModel(torch.nn.Sequential(linear), loss=lambda module, x, y: module(x).mean()))
    assert stackable(FlatModel(torch.nn.Sequential(linear)))


class Wider(torch.nn.Conv2d):
    """A convolution with something added."""


def test_layers_that_only_look_like_known_ones_are_not_stacked():
    nn = torch.nn
    relu, linear, frozen = nn.ReLU(), nn.Linear(10, 10), nn.Linear(10, 10)
    frozen.weight.requires_grad_(False)
    resting = nn.BatchNorm2d(3).eval()
    for layers in (
        (linear, relu, nn.Linear(10, 10), relu),
        (linear, linear),
        (nn.Linear(10, 10, bias=False),),
        (nn.Conv2d(3, 8, 3, padding=1, padding_mode="circular"), nn.Flatten(), nn.Linear(512, 10)),
        (Wider(3, 8, 3, padding=1), nn.Flatten(), nn.Linear(512, 10)),
        (nn.Flatten(0), linear),
        (frozen, linear),
        (resting, nn.Flatten(), nn.Linear(192, 10)),
    ):
        assert not stackable(FlatModel(nn.Sequential(*layers))), layers


INTERPRETED = """
import json, torch
from sojourn.learning.execute.stacked import convolution as c, launch, norm as n

def gap(one, other):
    return float((one - other).abs().max() / one.abs().max().clamp(min=1e-30)) if one.numel() else 0.0

torch.manual_seed(0)
worst = []
for models, examples, height, width, into, out, size, stride in (
    (2, 3, 8, 8, 3, 16, 3, 1), (2, 2, 8, 8, 16, 32, 3, 2), (2, 2, 6, 10, 16, 16, 3, 1), (1, 2, 7, 5, 4, 20, 3, 2),
    (2, 2, 8, 8, 16, 32, 1, 2), (1, 2, 4, 4, 32, 32, 1, 1), (1, 1, 4, 4, 64, 64, 3, 1),
):
    x = torch.randn(models, examples, height, width, into)
    room = torch.randn(models, out * size * size * into + 5)
    kernel = room[:, 3:-2].view(models, out, size, size, into)  # rows lie apart, as in a stack of flat models
    y = c.convolution(x, kernel, stride)
    slope = torch.randn_like(y)
    worst.append(gap(y, launch.forward(x, kernel, stride)))
    given = (slope, kernel, height, width, stride)
    worst.append(gap(c._of_input(*given), launch.of_input(*given)))
    worst.append(gap(c._of_kernel(x, slope, size, stride), launch.of_kernel(x, slope, size, stride)))
for models, examples, height, width, channels, groups, relu, branched in (
    (2, 3, 4, 4, 16, 8, True, True), (2, 3, 3, 5, 4, 4, True, False), (1, 2, 4, 4, 32, 8, False, True),
):
    x, slope = torch.randn(2, models, examples, height, width, channels)
    weight, bias = torch.randn(2, models, channels)
    around = torch.randn_like(x) if branched else None
    here = n._forward(x, weight, bias, around, groups, 1e-5, relu)
    there = launch.norm(x, weight, bias, around, groups, 1e-5, relu)
    back = n._gradients(slope, x, here[0], weight, here[1], here[2], groups, relu, branched)
    forth = launch.norm_back(slope, x, here[0], weight, here[1], here[2], groups, relu, branched)
    worst += [gap(one, other) for one, other in zip((*here, *back), (*there, *forth), strict=True)]
print(json.dumps([len(worst), max(worst)]))
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="the extra `kernels` is not installed")
def test_the_kernels_for_gpus_interpreted_step_by_step_compute_what_pytorch_computes():
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    made = subprocess.run(
        [sys.executable, "-c", INTERPRETED], capture_output=True, text=True, timeout=300, env=environment, check=False
    )
    assert made.returncode == 0, made.stderr
    many, worst = json.loads(made.stdout)
    assert many == 42
    assert worst < 1e-5
