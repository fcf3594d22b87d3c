"""Residual networks: their size, their first outputs, and many of them at once."""

import numpy as np
import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap

from sojourn import InvalidInput
from sojourn.learning.data.dataset import Dataset
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.models.load import load_model


def images(side=32, classes=10, channels=3):
    pixels = np.zeros((2, channels, side, side), dtype=np.uint8)
    return Dataset("images", pixels, [0, 1], pixels, [0, 1], classes=classes)


def made(text, seed=0, **sizes):
    return load_model(text, images(**sizes), "images", seed)


def size(module):
    return sum(parameter.numel() for parameter in module.parameters())


def seeded(*shape):
    return torch.from_numpy(np.random.default_rng(7).standard_normal(shape)).float()


@pytest.mark.parametrize("norm", ["group", "batch"])
def test_resnet20_has_the_parameters_of_the_paper_with_shortcuts_that_have_none(norm):
    assert size(made(f"resnet20(norm={norm})")) == 269_722


@pytest.mark.parametrize(
    ("text", "sizes", "parameters"),
    [
        # of the 269,722: convolutions 267,696, normalisation 1,376 (two for each of 688 channels), linear layer 650
        ("resnet20(norm=none)", {}, 269_722 - 1_376 + 688),
        ("resnet20(width=8)", {}, 267_696 // 4 + (27 * 8 - 27 * 16 // 4) + 1_376 // 2 + 330),
        ("resnet20", {"channels": 1, "side": 28}, 269_722 - 2 * 9 * 16),
        ("resnet18", {"side": 64, "classes": 200}, 11_271_432),
        ("resnet18", {}, 11_173_962),
        # 11,689,512 with the thousand classes of large images, 512 + 1 a class
        ("resnet18(stem=pooled, norm=batch)", {"side": 64, "classes": 200}, 11_689_512 - 800 * 513),
    ],
)
def test_the_number_of_parameters(text, sizes, parameters):
    assert size(made(text, **sizes)) == parameters


def test_the_seed_decides_the_first_parameters():
    one, same, other = (FlatModel(made("resnet20(width=4)", seed)).params for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


@pytest.mark.parametrize(
    ("text", "side", "expected"),
    [
        ("resnet20", 32, [0.24231, 0.78932, 0.60391]),
        ("resnet20(norm=batch)", 32, [-0.15627, 0.0533, -0.49947]),
        ("resnet20(norm=none)", 32, [-0.03151, 0.06809, -0.17129]),
        ("resnet18(width=16)", 64, [-0.40229, 1.12847, 1.57335]),
    ],
)
def test_a_first_forward_pass(text, side, expected):
    with torch.no_grad():
        found = made(text, side=side)(seeded(2, 3, side, side))
    assert found.shape == (2, 10)
    assert found[1, :3].tolist() == pytest.approx(expected, abs=1e-4)


def test_a_pooled_stem_leaves_a_sixteenth_of_the_pixels():
    module, x = made("resnet18(width=4, stem=pooled)", side=64), seeded(2, 3, 64, 64)
    plain = made("resnet18(width=4)", side=64)
    with torch.no_grad():
        assert module[:4](x).shape == (2, 4, 16, 16)
        assert plain[:3](x).shape == (2, 4, 64, 64)


def test_without_normalisation_every_block_begins_as_its_shortcut():
    module, x = made("resnet20(norm=none)"), seeded(2, 3, 32, 32)
    with torch.no_grad():
        stem = torch.relu(module[0](x))
        # twice every other pixel; 8 + 16 channels of zeros on either side of the first 16
        pooled = torch.nn.functional.pad(stem[:, :, ::4, ::4].mean((2, 3)), (24, 24))
        assert torch.allclose(module(x), module[-1](pooled), atol=1e-6)


def test_without_normalisation_the_output_does_not_grow_with_depth():
    with torch.no_grad():
        found = made("resnet18(norm=none, width=16)")(seeded(4, 3, 32, 32))
    assert 0.01 < float(found.abs().max()) < 10


def test_a_shortcut_without_parameters_keeps_every_other_pixel():
    shortcut = made("resnet20(width=4)")[6].shortcut  # convolution, norm, relu, three blocks, then this one
    x = seeded(1, 4, 6, 6)
    found = shortcut(x)
    assert found.shape == (1, 8, 3, 3)
    assert torch.equal(found[:, 2:6], x[:, :, ::2, ::2])
    assert not found[:, :2].any()
    assert not found[:, 6:].any()


@pytest.mark.parametrize(
    "text",
    [
        "resnet20(width=4)",
        "resnet20(width=4, norm=none)",
        "resnet18(width=4)",
        "resnet18(width=4, norm=none, stem=pooled)",
    ],
)
def test_two_stacked_models_give_what_each_gives(text):
    models = [made(text, seed).double() for seed in (1, 2)]
    x, y = seeded(2, 5, 3, 32, 32).double(), torch.tensor([[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]])
    params, buffers = stack_module_state(models)

    def loss(one, others, x, y):
        return torch.nn.functional.cross_entropy(functional_call(models[0], (one, others), (x,)), y)

    gradients = vmap(torch.func.grad(loss))(params, buffers, x, y)
    outputs = vmap(lambda one, others, x: functional_call(models[0], (one, others), (x,)))(params, buffers, x)
    for number, model in enumerate(models):
        assert torch.allclose(outputs[number], model(x[number]), atol=1e-5)
        torch.nn.functional.cross_entropy(model(x[number]), y[number]).backward()
        for name, parameter in model.named_parameters():
            assert torch.allclose(gradients[name][number], parameter.grad, atol=1e-5)


def test_stacked_models_with_batch_statistics_keep_their_own():
    models = [made("resnet20(width=4, norm=batch)", seed) for seed in (1, 2)]
    x = seeded(2, 5, 3, 32, 32)
    params, buffers = stack_module_state(models)
    outputs = vmap(lambda one, others, x: functional_call(models[0], (one, others), (x,)))(params, buffers, x)
    for number, model in enumerate(models):
        assert torch.allclose(outputs[number], model(x[number]), atol=1e-5)


@pytest.mark.parametrize(
    ("text", "side", "message"),
    [
        ("resnet20(norm=layer)", 32, "model resnet20: norm must be group, batch or none, got 'layer'"),
        ("resnet18(stem=large)", 32, "model resnet18: stem must be plain or pooled, got 'large'"),
        ("resnet20(stem=pooled)", 32, "stem"),
        ("resnet18(width=0)", 32, "model resnet18: width must be at least 1, got 0"),
        ("resnet20", 4, r"model resnet20 needs images of at least 8x8, dataset images has \(3, 4, 4\); use mlp"),
        ("resnet50", 32, r"model must be one of .*, got 'resnet50'; did you mean"),
    ],
)
def test_what_is_no_residual_network_is_refused(text, side, message):
    with pytest.raises(InvalidInput, match=message):
        made(text, side=side)
