"""The pieces of training, one by one: batches, local work, server steps, schedules, models."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn import InvalidInput
from sojourn.learning.data.load import load_dataset, load_problem
from sojourn.learning.data.partition import partition
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.models.load import load_model
from sojourn.learning.replay.batches import Batches
from sojourn.learning.replay.local import Local, work
from sojourn.learning.replay.server_step import ServerMemory, ServerStep
from sojourn.random import TaskKeys
from sojourn.schedule import Schedule

ANY = settings(max_examples=60)
DIGITS = load_dataset("digits")
HELD = partition("dirichlet(alpha=0.5)", DIGITS.train_y, 12, 0)


def _of(batches: Batches, client: int, nth: int, steps: int = 1) -> list[list[int]]:
    return [rows.tolist() for rows in batches.of(client, nth, steps, steps)]


@ANY
@given(
    client=st.integers(0, 11),
    asked=st.lists(st.integers(0, 40), min_size=1, max_size=8),
    order=st.sampled_from(["shuffled", "independent"]),
)
def test_a_tasks_batches_do_not_depend_on_what_was_asked_before(client, asked, order) -> None:
    used = Batches(HELD, 16, 3, order)
    before = [_of(used, client, nth, 2) for nth in asked]
    for nth, found in zip(asked, before, strict=True):
        assert _of(Batches(HELD, 16, 3, order), client, nth, 2) == found


@ANY
@given(client=st.integers(0, 11), laps=st.integers(1, 4), batch_size=st.integers(1, 50))
def test_shuffled_batches_go_through_all_examples_once_a_lap(client, laps, batch_size) -> None:
    batches = Batches(HELD, batch_size, 0)
    mine = HELD.of(client)
    size = batches.size(client)
    steps = -(-laps * mine.size // size)
    rows = np.concatenate(list(batches.of(client, 0, steps, steps)))
    for lap in range(laps):
        assert sorted(rows[lap * mine.size : (lap + 1) * mine.size]) == sorted(mine)


def test_independent_batches_draw_each_example_equally_often() -> None:
    batches = Batches(HELD, 50, 0, "independent")
    mine = HELD.of(3)
    draws = np.concatenate([rows for nth in range(400) for rows in batches.of(3, nth, 1, 1)])
    counts = np.bincount(np.searchsorted(np.sort(mine), draws), minlength=mine.size)
    expected = draws.size / mine.size
    chi2 = ((counts - expected) ** 2 / expected).sum()
    assert abs(chi2 - (mine.size - 1)) < 4 * np.sqrt(2 * (mine.size - 1))


def test_a_batch_is_never_larger_than_the_shard() -> None:
    batches = Batches(HELD, 10_000, 0)
    assert [batches.size(client) for client in range(12)] == HELD.sizes.tolist()


def test_seeds_give_other_batches() -> None:
    assert _of(Batches(HELD, 16, 0), 2, 0) != _of(Batches(HELD, 16, 1), 2, 0)


@pytest.mark.parametrize(
    "text", ["logistic", "mlp(hidden=8, layers=2)", "cnn(channels=4)", "cnn(channels=4, norm=none)"]
)
def test_the_flat_gradient_is_the_gradient_of_the_module(text) -> None:
    model = FlatModel(load_model(text, DIGITS, "digits", 1, torch.float64))
    x, y = torch.from_numpy(np.array(DIGITS.train_x[:20])).double(), torch.from_numpy(np.array(DIGITS.train_y[:20]))
    found, loss = model.gradient(model.params.clone(), x, y)
    module = load_model(text, DIGITS, "digits", 1, torch.float64)
    own = torch.nn.functional.cross_entropy(module(x), y)
    expected = torch.autograd.grad(own, list(module.parameters()))
    torch.testing.assert_close(found, torch.cat([one.reshape(-1) for one in expected]), rtol=1e-12, atol=1e-14)
    assert loss.item() == pytest.approx(own.item(), rel=1e-12)


@pytest.mark.parametrize("text", ["quadratic(dimension=4)", "logistic(dimension=4)"])
def test_the_model_of_a_problem_has_the_problems_loss_and_gradient(text) -> None:
    problem, dataset = load_problem(text), load_dataset(text)
    model = FlatModel(load_model("problem", dataset, text, 0, torch.float64))
    w, rows = np.array([0.3, -1.0, 2.0, 0.1]), np.arange(7)
    batch = (torch.from_numpy(np.array(dataset.train_x[rows])).double(), torch.from_numpy(dataset.train_y[rows]))
    found, loss = model.gradient(torch.from_numpy(w), *batch)
    np.testing.assert_allclose(found.numpy(), problem.stochastic_gradient(w, rows), rtol=1e-12)
    assert loss.item() == pytest.approx(problem.example_losses(w, rows).mean(), rel=1e-12)


def _quadratic_work(local: Local, starts: float, targets: list[float]):
    """Local work on 1/2 (w - target)^2, one target a step."""

    class Away(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))

        def loss(self, x, y):
            return 0.5 * (self.w - x).square().mean()

    batches = [(torch.tensor([[target]], dtype=torch.float64), torch.zeros(1)) for target in targets]
    return work(FlatModel(Away()), local, torch.tensor([starts], dtype=torch.float64), batches, local.step_size)


def test_one_plain_step_sends_the_gradient_as_it_is() -> None:
    update = _quadratic_work(Local(step_size=0.1), 2.0, [5.0])
    assert update.gradient.item() == -3.0
    assert update.as_delta().item() == pytest.approx(0.3)


def test_local_steps_send_the_way_they_went() -> None:
    update = _quadratic_work(Local(steps=2, step_size=0.1), 0.0, [1.0, 1.0])
    assert update.as_delta().item() == pytest.approx(0.19)
    assert update.as_gradient().item() == pytest.approx(-1.9)


def test_momentum_weight_decay_proximal_term_and_clipping_do_what_they_say() -> None:
    w1 = 0.1  # after one step towards 1
    momentum = _quadratic_work(Local(steps=2, step_size=0.1, momentum=0.5), 0.0, [1.0, 1.0])
    assert momentum.as_delta().item() == pytest.approx(w1 + 0.1 * (0.9 + 0.5 * 1.0))
    decay = _quadratic_work(Local(steps=1, step_size=0.1, weight_decay=0.5), 2.0, [1.0])
    assert decay.as_gradient().item() == pytest.approx(1.0 + 0.5 * 2.0)
    proximal = _quadratic_work(Local(steps=2, step_size=0.1, proximal=2.0), 0.0, [1.0, 1.0])
    assert proximal.as_delta().item() == pytest.approx(w1 + 0.1 * (0.9 - 2.0 * w1))
    clipped = _quadratic_work(Local(step_size=0.1, clip=0.25), 0.0, [1.0])
    assert clipped.as_gradient().item() == pytest.approx(-0.25)


def test_epochs_are_counted_in_whole_batches() -> None:
    local = Local(epochs=2, batch_size=32)
    assert [local.steps_of(examples) for examples in (10, 32, 33, 64)] == [2, 2, 4, 4]


def _server(kind: str, gradients: list[float], **options) -> list[float]:
    rule, memory, at, path = ServerStep(kind, 0.1, **options), ServerMemory(), torch.zeros(1, dtype=torch.float64), []
    for one in gradients:
        memory, at = rule.step(memory, at, torch.tensor([one], dtype=torch.float64), 1.0)
        path.append(at.item())
    return path


@pytest.mark.parametrize(
    ("kind", "theirs"),
    [
        ("sgd", lambda w: torch.optim.SGD(w, 0.1)),
        ("momentum", lambda w: torch.optim.SGD(w, 0.1, momentum=0.9)),
        ("adam", lambda w: torch.optim.Adam(w, 0.1, betas=(0.9, 0.99))),
    ],
)
def test_server_steps_are_those_of_pytorchs_optimisers(kind, theirs) -> None:
    gradients = [1.0, -2.0, 0.5, 3.0]
    w = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimiser, path = theirs([w]), []
    for one in gradients:
        w.grad = torch.tensor([one], dtype=torch.float64)
        optimiser.step()
        path.append(w.item())
    assert _server(kind, gradients) == pytest.approx(path, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "step", "time", "factor"),
    [
        ("constant", 10, 0.0, 1.0),
        ("drops(at=100/200, by=0.1)", 99, 0.0, 1.0),
        ("drops(at=100/200, by=0.1)", 200, 0.0, 0.01),
        ("cosine(end=100)", 50, 0.0, 0.5),
        ("cosine(end=100, least=0.1)", 1000, 0.0, 0.1),
        ("warmup(length=10)", 0, 0.0, 0.1),
        ("warmup(length=10, over=time)", 0, 5.0, 0.5),
        ("inverse(half=100, power=1)", 100, 0.0, 0.5),
    ],
)
def test_schedules(text, step, time, factor) -> None:
    assert Schedule.parse(text).factor(step, time) == pytest.approx(factor)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Local(steps=0), "local steps must be positive, got 0"),
        (lambda: Local(momentum=1.0), "local momentum must be at least 0 and below 1, got 1.0"),
        (lambda: Local(clip=0.0), "local clip must be positive, got 0.0"),
        (
            lambda: ServerStep("sgd", step_size=float("inf")),
            "the server's step size must be positive and finite, got inf",
        ),
        (lambda: Schedule.parse("cosine"), r"schedule cosine needs end; write for example cosine\(end=100\)"),
        (lambda: Schedule.parse("drops(at=a/b)"), "at must be numbers divided by /, got 'a/b'"),
        (lambda: Batches(HELD, 16, 0, "sorted"), "must be one of shuffled, independent, got 'sorted'"),
        (
            lambda: load_model("mlp", load_dataset("quadratic"), "quadratic", 0),
            "has no classes; use a model of your own",
        ),
        (lambda: load_model("cnn(norm=layer)", DIGITS, "digits", 0), "norm must be group, batch or none, got 'layer'"),
    ],
)
def test_impossible_values_are_refused_with_rule_and_value(build, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        build()


def test_a_models_first_parameters_depend_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    one = FlatModel(load_model("mlp", DIGITS, "digits", 5)).params
    torch.manual_seed(2)
    assert torch.equal(one, FlatModel(load_model("mlp", DIGITS, "digits", 5)).params)
    assert not torch.equal(one, FlatModel(load_model("mlp", DIGITS, "digits", 6)).params)


def test_a_clients_tasks_go_on_where_the_one_before_them_ended() -> None:
    batches = Batches(HELD, 8, 0)
    mine = HELD.of(1)
    tasks = mine.size // (8 * 2)
    rows = np.concatenate([rows for nth in range(tasks) for rows in batches.of(1, nth, 2, 2)])
    assert rows.size == np.unique(rows).size == tasks * 16
    cut_short = [rows.tolist() for rows in batches.of(1, 1, 1, 2)]  # an interrupted task
    assert cut_short == [rows[16:24].tolist()]


def test_without_pytorchs_own_engine_the_gradient_has_the_same_bits(monkeypatch) -> None:
    def gradient() -> torch.Tensor:
        model = FlatModel(load_model("mlp", DIGITS, "digits", 3))
        x, y = torch.tensor(DIGITS.train_x[:8]), torch.tensor(DIGITS.train_y[:8])
        return model.gradient(model.params.clone(), x, y)[0]

    engine = gradient()
    monkeypatch.setattr("sojourn.learning.execute.flat_model._ENGINE", None)
    assert torch.equal(gradient(), engine)
    assert engine.any()


def test_keys_of_tasks_fit_torch_and_differ_for_every_seed_client_and_task() -> None:
    found = {TaskKeys(seed)(client, nth) for seed in (0, 1, 2**40) for client in range(30) for nth in range(30)}
    assert len(found) == 3 * 30 * 30
    assert all(0 <= key < 2**63 for key in found)
    bits = np.array([[key >> place & 1 for place in range(63)] for key in found]).mean(axis=0)
    assert abs(bits - 0.5).max() < 5 * 0.5 / len(found) ** 0.5  # every bit is set in half of them


def test_the_key_of_a_task_stays_what_it_is() -> None:
    assert TaskKeys(7)(3, 5) == 2721410169057420942
