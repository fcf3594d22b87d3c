"""Wrapped algorithms: they are algorithms, compose, resume, and appear in runs, comparisons and on the command line."""

import json
import math
from dataclasses import dataclass, replace

import pytest
import torch

import sojourn as sj
from small_runs import simulated
from sojourn import InvalidInput
from sojourn.experiments.comparison import ComparisonSpec
from sojourn.facade.entries import entries_of
from sojourn.learning.algorithms.asyncsgd import AsyncSGD
from sojourn.learning.algorithms.fedasync import FedAsync
from sojourn.learning.algorithms.fedbuff import FedBuff
from sojourn.learning.algorithms.generalized_asyncsgd import GeneralizedAsyncSGD
from sojourn.learning.algorithms.quafl import Quafl
from sojourn.learning.replay.local import Local
from sojourn.learning.run.config import TrainConfig
from sojourn.learning.wrappers import Gaussian, Lora, LowRank, Qsgd, Sign, Subset, TopK, Wrapped, Wrapper, wrapped
from sojourn.learning.wrappers.wrapped import bare, wrappers_of
from sojourn.testing import CheckFailed, check_wrapper

LOCAL = Local(2, None, batch_size=4, step_size=0.1)
FLEET = sj.Fleet.of(fast=(6, 4.0), slow=(4, 1.0))
RUN = {"steps": 60, "partition": "iid", "progress": False, "evaluate_every": 30, "algorithm": "fedbuff(size=3)"}


@pytest.mark.parametrize(
    "one",
    [TopK(share=0.5), Qsgd(levels=7), Sign(), LowRank(), Gaussian(clip=5, noise=0.01, delta=0), Lora(), Subset()],
    ids=lambda one: one.name,
)
def test_every_wrapper_passes_the_checks_for_wrappers_of_ones_own(one):
    check_wrapper(one, around=[FedBuff(size=3)])


@pytest.mark.parametrize(
    "around", [AsyncSGD(), Quafl(contacts=2, waiting=0.5, interaction=0.25)], ids=["asyncsgd", "quafl"]
)
def test_wrappers_compose_with_each_other_around_any_algorithm(around):
    both = TopK(share=0.75)(Gaussian(clip=5, noise=0.01, delta=0)(around))
    check_wrapper(Qsgd(levels=31), around=[both])


def test_error_feedback_telescopes_over_a_whole_run():
    """Of every client: the sum of what it sent and what it keeps is the sum of its true updates."""

    @dataclass(frozen=True)
    class Noting(Wrapper):
        seen: dict
        where: str
        name = "noting"

        def leave(self, kept, update):
            self.seen.setdefault(self.where, []).append(update.vector)
            return kept, update

        def arrive(self, memory, arrival):
            self.seen.setdefault("client", []).append(arrival.client)
            return memory, arrival

    @dataclass(frozen=True)
    class Later(Noting):
        name = "later"

    seen = {}
    chain = wrapped(FedBuff(size=3), [Noting(seen, "true"), TopK(share=0.25), Later(seen, "sent")])
    case = simulated(chain, LOCAL)
    run = case.replay()
    run.advance(case.steps)
    clients = seen["client"][::2]
    for client in range(6):
        mine = [number for number, other in enumerate(clients) if other == client]
        true, sent = (sum(seen[key][number] for number in mine) for key in ("true", "sent"))
        left = run.kept[client].inner.own.error
        assert torch.allclose(sent + left, true, rtol=0, atol=1e-13)
        assert float(left.abs().max()) > 0
    assert run.tally.bits_up == case.steps * (32 + 2)


@pytest.mark.parametrize("around", [FedBuff(size=3), GeneralizedAsyncSGD(), FedAsync()], ids=lambda one: one.name)
def test_wrappers_that_leave_nothing_out_give_the_same_run_to_the_bit(around):
    plain = simulated(around, LOCAL)
    nothing = [TopK(share=1), Qsgd(levels=math.inf), Gaussian(clip=math.inf, noise=0, delta=0)]
    assert (plain.of(wrapped(around, nothing)).path() == plain.path()).all()


def test_what_a_wrapper_does_not_know_is_the_algorithm_s():
    class New(FedBuff):
        fact = "anything"

        def asks(self, state, number):
            return state.version, number

    made = Sign()(TopK()(New(size=3)))
    assert (made.fact, made.name, made.size, made.sends) == ("anything", "fedbuff", 3, "delta")
    state = made.init(torch.zeros(2), simulated(FedBuff(), LOCAL).setting)
    assert made.asks(state, 4) == (0, 4)
    assert (bare(made), [one.name for one in wrappers_of(made)]) == (New(size=3), ["topk", "sign"])
    with pytest.raises(AttributeError):
        made.nonsense  # noqa: B018
    with pytest.raises(InvalidInput, match="a wrapper must be given once, got topk twice"):
        TopK()(made)


def test_a_resumed_run_ends_as_an_uninterrupted_one(tmp_path):
    keys = {**RUN, "wrap": [TopK(share=0.1), Qsgd(levels=7)], "local_steps": 2}
    whole = sj.train(FLEET, folder=tmp_path / "whole", **keys)

    def stop(done, total, facts):
        if done >= 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sj.train(FLEET, folder=tmp_path / "cut", checkpoint_seconds=1e-9, **{**keys, "progress": stop})
    resumed = sj.train(FLEET, folder=tmp_path / "cut", resume=True, **keys)
    before, after = whole.state_dict(), resumed.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert (tmp_path / "whole/metrics.csv").read_text() == (tmp_path / "cut/metrics.csv").read_text()
    with pytest.raises(InvalidInput, match=r"another run.*wrap"):
        sj.train(FLEET, folder=tmp_path / "cut", resume=True, **{**keys, "wrap": "sign"})


@pytest.mark.parametrize(
    "wrap", ["topk(share=0.1); qsgd(levels=7)", "lowrank(rank=2)", "lora(rank=2)", "subset(names=3.*)"]
)
def test_waves_give_the_same_numbers(wrap):
    keys = {**RUN, "wrap": wrap, "dtype": "float64", "local_steps": 2, "concurrency": 10}
    one, many = (sj.train(FLEET, execution=how, **keys) for how in ("one-by-one", "waves"))
    assert many.last["bits_up"] == one.last["bits_up"]
    assert many.last["test_loss"] == pytest.approx(one.last["test_loss"], rel=1e-7)


def test_what_a_wrapper_keeps_does_not_make_waves_smaller():
    """A client's second task in its queue is computed along with its first."""
    for around, alone in ((FedBuff(size=3), False), (Quafl(contacts=2, waiting=0.5, interaction=0.25), True)):
        made = Sign()(TopK(share=0.5)(around))
        assert made.remembers
        assert made.starts_from_memory is alone


def test_runs_of_other_seeds_do_not_share_what_is_frozen(tmp_path):
    from sojourn.experiments.training import open_run
    from sojourn.learning.run.trainer import together

    keys = {"wrap": "lora(rank=2)", "steps": 20, "partition": "iid", "execution": "waves"}
    FLEET.save(tmp_path / "fleet.csv")
    configs = [TrainConfig.of({"fleet": str(tmp_path / "fleet.csv"), "seed": seed, **keys}, "run") for seed in (0, 1)]
    runs = [open_run(configs[0], tmp_path / "0")]
    runs.append(open_run(configs[1], tmp_path / "1", like=runs[0].built))
    together(runs)
    alone = sj.train(tmp_path / "fleet.csv", seed=1, progress=False, **keys)
    assert runs[1].outcome.metrics["test_loss"] == alone.last["test_loss"]


def test_bits_epsilon_and_refusals_are_in_the_run(tmp_path):
    pytest.importorskip("dp_accounting")
    wrap = [Gaussian(clip=0.5, noise=6.0, budget=3.0), TopK(share=0.1)]
    run = sj.train(FLEET, folder=tmp_path, **{**RUN, "wrap": wrap, "time": None})
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert run.config["wrap"] == "gaussian(clip=0.5, noise=6.0, budget=3.0); topk(share=0.1)"
    for key in ("epsilon", "epsilon_fast", "epsilon_slow", "clipped", "refused", "bits_up"):
        assert run.last[key] == summary[key]
    assert 0 < summary["epsilon"] <= 3.0
    assert summary["refused"] > 0
    assert summary["bits_up"] < 0.2 * 32 * 4810 * 60
    assert math.isnan(run.last["train_loss"])
    assert summary["train_loss"] is None


def test_a_wrapped_algorithm_is_two_keys_of_a_run():
    run = sj.train(FLEET, **{**RUN, "algorithm": TopK(share=0.5)(FedBuff(size=3)), "steps": 5})
    assert (run.config["algorithm"], run.config["wrap"]) == ("fedbuff(size=3)", "topk(share=0.5)")
    with pytest.raises(InvalidInput, match="wrap and an algorithm that is wrapped already exclude each other"):
        sj.train(FLEET, **{**RUN, "algorithm": TopK()(FedBuff()), "wrap": "sign"})


@dataclass(frozen=True)
class Halved(Wrapper):
    """Clients send half of their updates; in one file, as a stranger would write it."""

    part: float = 0.5
    name = "halved"

    def leave(self, kept, update):
        return kept, update.with_vector(update.vector * self.part)


def test_a_wrapper_of_ones_own_as_text_and_as_an_object():
    check_wrapper(Halved(), around=[FedBuff(size=3)])
    texts = [f"{__name__}:Halved(part=0.25)", [Halved(0.25)]]
    runs = [sj.train(FLEET, **{**RUN, "wrap": wrap, "steps": 10}) for wrap in texts]
    assert (
        runs[0].last["test_loss"]
        == runs[1].last["test_loss"]
        != sj.train(FLEET, **{**RUN, "steps": 10}).last["test_loss"]
    )


def test_code_in_a_text_is_recognised_wherever_it_stands():
    for keys in ({"wrap": "topk; mine:Own(a=1)"}, {"algorithm": "fedbuff(combine=mine:Own)"}):
        assert TrainConfig("fleet.csv", **keys).code == keys
    assert TrainConfig("fleet.csv", wrap="topk(share=0.1)", algorithm="fedbuff(combine=median)").code == {}


def test_checks_find_what_is_wrong_with_a_wrapper():
    class Forgetful(TopK):
        remembers = False

    class Frozen(Halved):
        def of_module(self, module, seed):
            return module.requires_grad_(False)

    class Odd(Halved):
        def columns(self, setting):
            return ("one",)

    for wrong, said in (
        (Forgetful(share=0.5), "remembers = True"),
        (Frozen(), "must leave a parameter to train"),
        (Odd(), "measures must give a number for each column"),
    ):
        with pytest.raises(CheckFailed, match=said):
            check_wrapper(wrong, around=[FedBuff(size=3)])
    with pytest.raises(AssertionError, match="must define of_module"):
        check_wrapper(object())


def test_a_comparison_names_and_describes_wrapped_algorithms():
    given = ["fedbuff(size=3)", Sign()(FedBuff(size=3)), {"algorithm": "fedbuff(size=3)", "wrap": "topk(share=0.1)"}]
    content = {"run": {"fleet": "fleet.csv", "step_size": 0.1}, "algorithm": entries_of(FLEET, given)}
    spec = ComparisonSpec.of(content, "here")
    names = ["fedbuff(size=3)", "fedbuff(size=3) + sign", "fedbuff(size=3) + topk(share=0.1)"]
    assert [one.name for one in spec.algorithms] == names
    assert [spec.final(one, None, 0).config.wrap for one in spec.algorithms] == [None, "sign", "topk(share=0.1)"]


def test_the_command_line_takes_wrappers_one_after_the_other(tmp_path):
    from typer.testing import CliRunner

    from sojourn.cli.main import app

    FLEET.save(tmp_path / "fleet.csv")
    words = ["train", str(tmp_path / "fleet.csv"), "--steps", "10", "--out", str(tmp_path / "run")]
    words += ["--wrap", "gaussian(clip=1, noise=0.5, delta=0)", "--wrap", "topk(share=0.1)"]
    assert CliRunner().invoke(app, words).exit_code == 0
    found = json.loads((tmp_path / "run/config.json").read_text())["config"]["wrap"]
    assert found == "gaussian(clip=1, noise=0.5, delta=0); topk(share=0.1)"


def test_wrappers_that_freeze_everything_together_are_named():
    said = "wrap: subset must leave a parameter to train, but freezes all that lora leaves to it: 1.adapter_a, 1.adapt"
    with pytest.raises(InvalidInput, match=said):
        sj.train(FLEET, **{**RUN, "wrap": "lora; topk; subset(names=*.bias)"})
    with pytest.raises(
        InvalidInput, match=r"wrap: frozen must leave .* freezes all that the model leaves to it: 1.wei"
    ):
        sj.train(FLEET, **{**RUN, "wrap": [Frozen()]})


class Frozen(Wrapper):
    name = "frozen"

    def of_module(self, module, seed):
        return module.requires_grad_(False)


def test_a_wrapped_algorithm_can_be_replaced_and_compared():
    made = TopK(share=0.5)(FedBuff(size=3))
    assert made == Wrapped(FedBuff(size=3), TopK(share=0.5))
    assert replace(made, inner=FedBuff(size=4)).size == 4
