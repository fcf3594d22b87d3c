"""Each compressor by itself: it is unbiased or contracts, it counts its bits, and large options change nothing."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from sojourn import InvalidInput
from sojourn.learning.layout import Layout
from sojourn.learning.replay.local import Update
from sojourn.learning.wrappers import Lora, LowRank, Qsgd, Sign, Subset, TopK, wrapper, wrappers

LAYOUT = Layout(("a", "b", "c"), (torch.Size([6, 5]), torch.Size([4]), torch.Size([3, 2, 2, 2])))
vectors = st.lists(st.floats(-1e3, 1e3, allow_subnormal=False), min_size=LAYOUT.size, max_size=LAYOUT.size)


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def sent(one, vector, key=1, kept=None):
    update = Update(vector, None, 0.1, 1, torch.zeros(()), key=key)
    return one.leave(kept, update)


def square(x):
    return float(x @ x)


@given(vectors, st.sampled_from([0.01, 0.1, 0.5, 0.99, 1.0]))
@settings(max_examples=50)
def test_topk_leaves_out_at_most_its_part_of_the_square(values, share):
    v, one = tensor(values), TopK(share=share)
    c = one.compressed(v)
    many = math.ceil(Fraction(str(share)) * v.numel())
    assert int((c != 0).sum()) <= many
    assert square(v - c) <= (1 - many / v.numel()) * square(v) * (1 + 1e-12) + 1e-300


def test_seven_percent_of_a_hundred_numbers_are_seven():
    assert [TopK(share=share).many(100) for share in (0.07, 0.14, 0.28, 0.55, 0.001, 0.071)] == [7, 14, 28, 55, 1, 8]


@given(vectors)
@settings(max_examples=50)
def test_the_scaled_sign_leaves_out_what_its_formula_says(values):
    v = tensor(values)
    c = Sign().compressed(v)
    expected = square(v) - float(v.abs().sum()) ** 2 / v.numel()
    assert square(v - c) == pytest.approx(expected, rel=1e-9, abs=1e-9 * max(1.0, square(v)))
    assert len(set(c.abs().tolist())) == 1


@given(vectors, st.integers(1, 2))
@settings(max_examples=15)
def test_low_rank_is_a_projection(values, rank):
    v = tensor(values)
    one = LowRank(rank=rank, layout=LAYOUT)
    c, bases, _ = one.compressed(v, (), torch.Generator().manual_seed(1))
    assert square(v - c) == pytest.approx(square(v) - square(c), rel=1e-9, abs=1e-9 * max(1.0, square(v)))
    assert torch.linalg.matrix_rank(LAYOUT.parts(c)[0]) <= rank
    assert torch.equal(LAYOUT.parts(c)[1], LAYOUT.parts(v)[1])  # vectors are sent as they are
    assert len(bases) == 2  # of the matrix and of the kernel


def test_low_rank_finds_the_leading_directions_when_the_same_matrix_comes_again():
    rows = np.random.default_rng(0).normal(size=(6, 5)) @ np.diag([9.0, 4.0, 1.0, 0.5, 0.1])
    layout = Layout(("a",), (torch.Size([6, 5]),))
    one, v = LowRank(rank=2, feedback=False, layout=layout), tensor(rows.ravel())
    kept, gaps = None, []
    for key in range(30):
        kept, update = sent(one, v, key, kept)
        gaps.append(square(v - update.vector))
    best = float((np.linalg.svd(rows)[1][2:] ** 2).sum())
    assert gaps[-1] == pytest.approx(best, rel=1e-6)
    assert gaps[0] > gaps[-1]


def test_qsgd_is_unbiased_with_the_variance_of_its_formula():
    v = torch.from_numpy(np.random.default_rng(3).normal(size=40))
    one, many = Qsgd(levels=4, bucket=16), 1500
    drawn = torch.stack([sent(one, v, key)[1].vector for key in range(many)]).numpy()
    error = drawn.std(axis=0) / math.sqrt(many)
    assert (np.abs(drawn.mean(axis=0) - v.numpy()) < 5 * error + 1e-12).all()
    spread = ((drawn - v.numpy()) ** 2).sum(axis=1).mean()
    bound = sum(min(b.size / 16, math.sqrt(b.size) / 4) * (b @ b) for b in np.split(v.numpy(), [16, 32]))
    assert 0 < spread < bound
    levels = np.abs(drawn[:, :16]) / np.linalg.norm(v[:16]) * 4
    assert np.allclose(levels, levels.round(), atol=1e-9)


@pytest.mark.parametrize("one", [TopK(share=1), Qsgd(levels=math.inf), LowRank(rank=5, layout=LAYOUT)])
def test_a_compressor_that_leaves_nothing_out_changes_no_bit(one):
    v = torch.from_numpy(np.random.default_rng(1).normal(size=LAYOUT.size))
    kept = None
    for key in range(3):
        kept, update = sent(one, v, key, kept)
        assert torch.equal(update.vector, v)


def test_bits_by_hand():
    v = torch.from_numpy(np.random.default_rng(1).normal(size=1000))
    layout = Layout(("a", "b"), (torch.Size([30, 33]), torch.Size([10])))
    expected = {
        TopK(share=0.01): 10 * (32 + 10),
        TopK(share=0.5): 1000 + 500 * 32,  # a bit for each place is shorter than 500 places of 10 bits
        Sign(): 1000 + 32,
        LowRank(rank=2, layout=layout): 32 * (2 * 63 + 10),
    }
    assert {one: sent(one, v)[1].bits for one in expected} == expected
    rounded = sent(Qsgd(levels=15, bucket=512), v)[1]
    zeros = int((rounded.vector == 0).sum())
    assert rounded.bits == min(1000 * 5, 1000 + (1000 - zeros) * 5, (1000 - zeros) * 15) + 2 * 32
    sparse = sent(Qsgd(levels=15), sent(TopK(share=0.01), v)[1].vector)[1]
    assert sparse.bits <= 10 * (10 + 5) + 2 * 32


def test_statistics_are_counted_as_they_are():
    update = Update(None, torch.ones(8), 0.1, 1, torch.zeros(()), stats=torch.ones(3))
    assert Sign().leave(None, update)[1].bits == 8 + 32 + 3 * 32


def test_error_feedback_telescopes_for_every_compressor_with_it():
    random = np.random.default_rng(5)
    updates = [torch.from_numpy(random.normal(size=LAYOUT.size)) for _ in range(50)]
    for one in (TopK(share=0.1), Sign(), LowRank(rank=1, layout=LAYOUT)):
        kept, total = None, torch.zeros(LAYOUT.size, dtype=torch.float64)
        for key, v in enumerate(updates):
            kept, update = sent(one, v, key, kept)
            total = total + update.vector
        left = kept.residual if isinstance(one, LowRank) else kept
        assert torch.allclose(total + left.error, sum(updates), atol=1e-12)


def test_without_feedback_clients_keep_nothing():
    v = torch.ones(4, dtype=torch.float64)
    for one in (TopK(share=0.5, feedback=False), Sign(feedback=False)):
        assert not one.remembers
        assert sent(one, v)[0] is None


def module():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))


def test_a_subset_freezes_the_other_parameters():
    made = Subset(names="2.*+*.bias").of_module(module(), 0)
    assert [name for name, one in made.named_parameters() if one.requires_grad] == ["0.bias", "2.weight", "2.bias"]
    with pytest.raises(InvalidInput, match=r"parameter head\.\*, its names are 0.weight"):
        Subset(names="head.*").of_module(module(), 0)


def test_adapters_change_nothing_at_first_and_alone_are_trained():
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
    before = module()(x)
    made = Lora(rank=2).of_module(module(), 7)
    assert torch.equal(made(x), before)
    trained = {name: tuple(one.shape) for name, one in made.named_parameters() if one.requires_grad}
    assert trained == {
        "0.adapter_a": (2, 3),
        "0.adapter_b": (5, 2),
        "2.adapter_a": (2, 5),
        "2.adapter_b": (2, 2),
    }
    with torch.no_grad():
        made[0].adapter_b.fill_(1.0)
    by_hand = x @ (made[0].weight + 2.0 * made[0].adapter_b @ made[0].adapter_a).T + made[0].bias
    assert torch.allclose(made[0](x), by_hand, atol=1e-5)
    with pytest.raises(InvalidInput, match="needs linear layers, Conv2d has none"):
        Lora().of_module(nn.Conv2d(1, 1, 3), 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("topk(share=0)", "topk: share must lie above 0 and at most at 1, got 0.0"),
        ("topk(feedback=yes)", "wrapper topk: feedback must be true or false, got 'yes'"),
        ("qsgd(levels=1.5)", "qsgd: levels must be a whole number"),
        ("qsgd(bucket=0)", "qsgd: bucket must be at least 1"),
        ("lowrank(rank=0)", "lowrank: rank must be at least 1"),
        ("lora(rank=0)", "lora: rank must be at least 1"),
        ("lora(scale=0)", "lora: scale must be positive"),
        ("subset(names=+)", "subset: names must name parameters"),
        ("topq", "wrapper must be one of topk, .*did you mean topk"),
        ("fractions:Fraction(numerator=3)", "Fraction must define of_module"),
    ],
)
def test_what_makes_no_sense_is_refused_at_the_door(text, said):
    with pytest.raises(InvalidInput, match=said):
        wrapper(text)


def test_wrappers_are_read_in_their_order_and_once_each():
    assert wrappers("lowrank(rank=3); topk(share=0.5)") == [LowRank(rank=3), TopK(share=0.5)]
    assert wrappers(None) == []
    with pytest.raises(InvalidInput, match="lowrank must know the model's matrices"):
        sent(LowRank(), torch.ones(3))
