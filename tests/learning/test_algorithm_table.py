"""What every algorithm of the table does, whatever its options: the same properties for all of them."""

from dataclasses import fields, replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from small_runs import FLEET, PROBLEM, simulated
from sojourn import InvalidInput
from sojourn.availability import Availability
from sojourn.learning.algorithms.base import Setting
from sojourn.learning.algorithms.table import ALGORITHMS, FACTS, algorithm
from sojourn.learning.data.digits import digits
from sojourn.learning.data.partition import partition
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.models.load import load_model
from sojourn.learning.replay.federation import Federation
from sojourn.learning.replay.local import Local
from sojourn.learning.replay.replay import Replay
from sojourn.learning.replay.server_step import ServerStep
from sojourn.learning.replay.timeline import Recorded, superseded
from sojourn.schedule import Schedule
from sojourn.testing.algorithm import PROPERTIES, same
from sojourn.testing.algorithm import Case as PropertyCase
from sojourn.trace import DROPPED

STEPS = 60
PLAIN = Local(step_size=0.2, batch_size=4)
THREE = Local(3, None, batch_size=4, step_size=0.1, momentum=0.5, weight_decay=0.01, proximal=0.1, clip=3.0)
EPOCH = Local(epochs=1, step_size=0.1, batch_size=4, schedule=Schedule.parse("drops(at=30, by=0.5)"))
SGD, MOMENTUM = ServerStep(step_size=0.1), ServerStep("momentum", step_size=0.05, momentum=0.5)
ADAM = ServerStep("adam", step_size=0.05, schedule=Schedule.parse("cosine(end=120)"))
YOGI = ServerStep("yogi", step_size=0.2)
CLOCK = "contacts=2, waiting=0.5, interaction=0.25"

TABLE = [
    ("generalized-asyncsgd", SGD, PLAIN),
    ("generalized-asyncsgd", MOMENTUM, THREE),
    ("generalized-asyncsgd", ADAM, EPOCH),
    ("asyncsgd", SGD, PLAIN),
    ("asyncsgd(assignment=pure, steps=adaptive)", MOMENTUM, THREE),
    ("asyncsgd(assignment=shuffled, steps=drop)", ADAM, EPOCH),
    ("fedavg", SGD, PLAIN),
    ("fedavg(server_step_size=0.7, weights=equal, interaction=0.5)", SGD, THREE),
    ("fedavg", SGD, EPOCH),
    ("fedbuff(size=4)", SGD, PLAIN),
    ("fedbuff(size=3, staleness=root, dispatch=routed)", replace(MOMENTUM, step_size=0.1), THREE),
    ("fedbuff(size=2, server_step_size=0.3, distinct=true)", ADAM, EPOCH),
    (f"favano({CLOCK})", SGD, PLAIN),
    (f"favano({CLOCK}, reweighting=deterministic, keep=0.5)", SGD, THREE),
    (f"quafl({CLOCK})", SGD, PLAIN),
    (f"quafl({CLOCK}, bits=20, side=0.001, rescale=false)", SGD, THREE),
    (f"quafl({CLOCK}, bits=32, server_average=false, client_average=false)", SGD, PLAIN),
    ("fedasync", SGD, PLAIN),
    ("fedasync(alpha=0.9, staleness=hinge, a=10, b=2, dispatch=pure)", SGD, THREE),
    ("fedasync(staleness=constant, most=4, dispatch=routed)", SGD, EPOCH),
    ("delay-adaptive", SGD, PLAIN),
    ("delay-adaptive(threshold=2)", MOMENTUM, THREE),
    ("delay-adaptive(threshold=6, beyond=drop, assignment=shuffled)", ADAM, EPOCH),
    ("ringleader", SGD, PLAIN),
    ("ringleader(refresh=true)", MOMENTUM, THREE),
    ("ia2sgd", SGD, PLAIN),
    ("ia2sgd(size=3, warmup=zero)", SGD, THREE),
    ("ia2sgd(warmup=after, assignment=random)", YOGI, EPOCH),
    ("ace", SGD, PLAIN),
    ("ace(most=9)", replace(MOMENTUM, step_size=0.02), THREE),
    ("ca2fl(size=3)", SGD, PLAIN),
    ("ca2fl(size=2, server_step_size=0.3, dispatch=routed)", replace(MOMENTUM, step_size=0.1), THREE),
    ("fadas(size=3, server_step_size=0.2)", SGD, PLAIN),
    ("fadas(size=2, server_step_size=0)", SGD, THREE),
    ("fadas(size=1, server_step_size=0.2, adaptive=false, bias_correction=true)", SGD, THREE),
    ("fedasmu", SGD, PLAIN),
    ("fedasmu(mu=2, sigma=1, most=4)", SGD, THREE),
    ("fedasmu(refresh=false, lam=0, iota=1)", SGD, EPOCH),
    ("aso-fed(lam=0.5, beta=0.5)", SGD, PLAIN),
    ("aso-fed(server_step_size=1.5, dynamic=false)", MOMENTUM, THREE),
    ("fedprox", SGD, PLAIN),
    ("fedprox(mu=1, deadline=0.8)", SGD, THREE),
    ("fedprox(weights=equal, server_step_size=0.3)", YOGI, EPOCH),
    ("rennala(size=4)", SGD, PLAIN),
    ("rennala(size=3, restart=stop)", ADAM, EPOCH),
    ("malenia", replace(SGD, step_size=0.5), PLAIN),
    ("malenia(size=12, strict=true, restart=stop)", replace(SGD, step_size=0.4), EPOCH),
    ("ringmaster", SGD, PLAIN),
    ("ringmaster(threshold=4, stops=true)", MOMENTUM, THREE),
    ("asgrad", SGD, PLAIN),
    ("asgrad(assignment=random, wait=3)", MOMENTUM, THREE),
    ("aafl", SGD, PLAIN),
    ("aafl(alpha=0.3, form=mean)", SGD, THREE),
    ("fedfix(dt=0.5)", SGD, PLAIN),
    ("fedfix(form=async, server_step_size=0.5)", SGD, THREE),
    ("fedfix(form=buffered, size=3, weights=identical)", SGD, EPOCH),
    ("fedcompass(alpha=1.0)", SGD, PLAIN),
    ("fedcompass(staleness=constant, least=0.4, slack=1.2)", SGD, THREE),
    ("asyncfeded", SGD, PLAIN),
    ("asyncfeded(first=2, target=1, kappa=2)", replace(MOMENTUM, step_size=0.1), THREE),
]
LOCALS = {id(PLAIN): "one step", id(THREE): "three steps", id(EPOCH): "an epoch"}
NAMES = [f"{text}, {server.kind}, {LOCALS[id(local)]}" for text, server, local in TABLE]
FIRST = {text.partition("(")[0]: number for number, (text, _, _) in reversed([*enumerate(TABLE)])}
OLD = ("generalized-asyncsgd", "asyncsgd", "fedavg", "fedbuff", "favano", "quafl", "fedasync")
ROWS = [
    number
    if number in FIRST.values() or text.startswith(OLD)
    else pytest.param(number, marks=pytest.mark.slow)  # of the other methods one row is tested each time
    for number, (text, _, _) in enumerate(TABLE)
]
every = pytest.mark.parametrize("number", ROWS, ids=NAMES)


@cache
def case_of(number):
    """Each entry on its own timing; some with more tasks than clients, or clients sampled unequally."""
    text, server, local = TABLE[number]
    chosen = algorithm(text, server)
    tasks = {
        "generalized-asyncsgd": 9,
        "asyncsgd": 5,
        "fedavg": 4,
        "fedbuff": 5,
        "fedasync": 4,
        "ca2fl": 5,
        "fedprox": 4,
        "asgrad": 8,
    }
    tasks = tasks.get(chosen.name)
    return simulated(chosen, local, weights=(1.0, 2.0), tasks=tasks)


@cache
def property_case_of(number):
    """The same, as `sojourn.testing` has it."""
    case = case_of(number)
    return PropertyCase(case.algorithm, case.problem, case.setting, case.trace)


@cache
def story_of(number):
    """One run, watched at every step."""
    case, story = case_of(number), SimpleNamespace(at=[], infos=[], sent=[])
    replay = case.replay(watched(case.algorithm, story))
    for received in range(case.steps + 1):
        replay.advance(received)
        distinct = {pinned.sent.params.data_ptr() for pinned in replay.pending.values()}
        facts = {"pinned": len(replay.pending), "distinct": len(distinct), "version": replay.state.version}
        story.at.append(SimpleNamespace(received=replay.received, params=replay.params, **facts))
    story.replay = replay
    return story


def watched(chosen, story):
    """The algorithm; all tensors that it is given are compared to what they were, then and at the end."""
    kept = []

    def unchanged(call):
        def checked(*given):
            before = [(tensor, tensor.clone()) for tensor in tensors(given)]
            result = call(*given)
            assert all(torch.equal(tensor, copy) for tensor, copy in before)
            kept.extend(before)
            return result

        return checked

    def apply(state, arrival):
        state, info = unchanged(chosen.apply)(state, arrival)
        story.infos.append((info, arrival))
        return state, info

    def send(state, client):
        story.sent.append(unchanged(chosen.send)(state, client))
        return story.sent[-1]

    story.kept = kept
    calls = {name: unchanged(getattr(chosen, name)) for name in ("init", "start", "finish", "tick")}
    facts = {name: getattr(chosen, name) for name in ("bits_each_way", *FACTS)}
    return SimpleNamespace(apply=apply, send=send, **facts, **calls)


def tensors(value):
    """All tensors within tuples and dicts."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = tuple(value.values())
    return [tensor for one in value for tensor in tensors(one)] if isinstance(value, tuple) else []


def test_every_method_is_in_the_table():
    assert {algorithm(text).name for text, _, _ in TABLE} == set(ALGORITHMS)


@pytest.mark.parametrize("holds", PROPERTIES, ids=[one.__name__ for one in PROPERTIES])
@every
def test_every_property_that_an_algorithm_of_your_own_is_checked_for(number, holds):
    holds(property_case_of(number))


@every
def test_no_more_models_are_held_than_tasks_are_in_flight(number):
    case = case_of(number)
    tasks = case.setting.plan.concurrency
    late = tasks if case.algorithm.name == "fedcompass" else 0  # updates that wait while their clients go on
    for here in story_of(number).at:
        assert here.distinct <= here.pinned <= tasks + late


@every
def test_used_and_unused_gradients_add_up(number):
    story, case = story_of(number), case_of(number)
    used = sum(arrival.update.steps for info, arrival in story.infos if info.used)
    unused = sum(arrival.update.steps for info, arrival in story.infos if not info.used)
    tally, trace = story.replay.tally, case.trace
    each = 3 if case.setting.local.epochs else None  # ten examples in batches of four
    cancelled = (trace.fate == DROPPED) & (trace.work > 0)
    begun = each * cancelled.sum() if each else trace.work[cancelled].sum()
    if trace.metadata["dispatcher"] == "periodic":  # a call interrupts whoever has not done all steps
        begun += (trace.work[trace.applied] < case.setting.local.steps).sum()
    assert (tally.gradients, tally.unused) == (used + unused + begun, unused + begun)
    assert tally.gradients - begun == (each * case.steps if each else trace.work[trace.applied].sum())
    assert used > 0
    chosen = case.algorithm
    stops = getattr(chosen, "restart", "") == "stop" or getattr(chosen, "stops", False)
    calls = chosen.name in ("favano", "quafl") or getattr(chosen, "deadline", None) is not None
    assert (begun > 0) == (stops or calls or chosen.name == "fedcompass")  # of which late updates are replaced
    refuses = chosen.name == "asyncsgd" and chosen.steps == "drop"
    refuses |= getattr(chosen, "distinct", False) or getattr(chosen, "most", None) is not None
    refuses |= chosen.name in ("ia2sgd", "ace") or getattr(chosen, "beyond", None) == "drop"  # replaced in the warm-up
    refuses |= chosen.name in ("rennala", "malenia", "ringmaster") and not stops
    assert (unused > 0) == refuses


@every
def test_bits_add_up_to_those_of_the_tasks(number):
    story, case = story_of(number), case_of(number)
    size = PROBLEM.dimension
    bits = getattr(case.algorithm, "bits", 32)
    assert case.algorithm.bits_each_way(size) == (bits * size, bits * size)
    up = [bits * size if arrival.update.bits is None else arrival.update.bits for _, arrival in story.infos]
    down = [bits * size if sent.bits is None else sent.bits for sent in story.sent]
    assert (len(up), len(down)) == (case.steps, len(case.trace))
    replaced = bits * size * int(superseded(case.trace).sum())  # by newer updates of the same clients
    assert (replaced > 0) == (case.algorithm.name == "fedcompass")
    assert (story.replay.tally.bits_up, story.replay.tally.bits_down) == (sum(up) + replaced, sum(down))
    # nothing comes up at a check-in and where no step was done in time, and nothing goes down to a client that
    # continues at its own model
    deadline = getattr(case.algorithm, "deadline", None) is not None
    assert (0 in up, 0 in down) == (
        deadline or (case.algorithm.name == "fedasmu" and case.algorithm.refresh),
        case.algorithm.name == "ringleader" and not case.algorithm.refresh,
    )


@every
def test_the_loss_falls(number):
    path = [here.params.numpy() for here in story_of(number).at]
    late = np.mean([PROBLEM.gap(w) for w in path[-10:]])
    assert late < 0.6 * PROBLEM.gap(path[0])


@every
def test_the_text_of_a_method_reads_back_as_the_method(number):
    chosen, server = case_of(number).algorithm, TABLE[number][1]
    words = {item.name: getattr(chosen, item.name) for item in fields(chosen) if item.name != "server"}
    inside = ", ".join(
        f"{key}={str(value).lower() if isinstance(value, bool) else value}"
        for key, value in words.items()
        if value is not None
    )
    assert algorithm(f"{chosen.name}({inside})", server) == chosen


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fedsgd", "algorithm must be one of generalized-asyncsgd, asyncsgd, .*, got 'fedsgd'"),
        (
            "generalized-asyncsgd(step_size=1)",
            "algorithm generalized-asyncsgd: options are size, steps, got 'step_size=1'",
        ),
        ("asyncsgd(assignment=idle)", "asyncsgd: assignment must be one of random, pure, shuffled, got 'idle'"),
        ("asyncsgd(steps=none)", "asyncsgd: steps must be one of constant, adaptive, drop, got 'none'"),
        ("asyncsgd(server=adam)", "algorithm asyncsgd: options are assignment, steps, got 'server=adam'"),
        ("fedavg(weights=all)", "fedavg: weights must be objective or equal, got 'all'"),
        ("fedavg(server_step_size=0)", "fedavg: server_step_size must be positive and finite, got 0"),
        ("fedavg(server_step_size=inf)", "fedavg: server_step_size must be positive and finite, got inf"),
        ("fedavg(interaction=-1)", "interaction must be non-negative and finite, got -1"),
        ("fedbuff(size=0)", "fedbuff: size must be at least 1, got 0"),
        ("fedbuff(size=2.5)", "algorithm fedbuff: size must be a whole number, got '2.5'"),
        ("fedbuff(size=7, distinct=true)", "a buffer of 7 distinct clients needs as many, got 6; lower size"),
        ("fedbuff(distinct=yes)", "algorithm fedbuff: distinct must be true or false, got 'yes'"),
        ("fedbuff(server_step_size=nan)", "fedbuff: server_step_size must be positive and finite, got nan"),
        ("fedbuff(staleness=square)", "fedbuff: staleness must be none or root, got 'square'"),
        ("fedbuff(dispatch=pure)", "fedbuff: dispatch must be idle or routed, got 'pure'"),
        ("favano(reweighting=none)", "favano: reweighting must be stochastic or deterministic, got 'none'"),
        ("favano(keep=-1)", "favano: keep must be non-negative and finite, got -1"),
        ("favano(keep=inf)", "favano: keep must be non-negative and finite, got inf"),
        ("favano(contacts=0)", "^favano: contacts must be a whole number of at least 1, got 0"),
        ("favano(contacts=7)", "contacts must be between 1 and the 6 clients for this dispatcher, got 7"),
        ("favano(waiting=-1)", "waiting must be non-negative and finite, got -1"),
        ("quafl(bits=0)", "quafl: bits must lie between 1 and 32, got 0"),
        ("quafl(bits=33)", "quafl: bits must lie between 1 and 32, got 33"),
        ("quafl(side=0)", "quafl: side must be positive and finite, got 0"),
        ("quafl(contacts=0)", "^quafl: contacts must be a whole number of at least 1, got 0"),
        ("quafl(rescale=1)", "algorithm quafl: rescale must be true or false, got '1'"),
        ("fedasync(alpha=0)", r"fedasync: alpha must lie in \(0, 1\], got 0"),
        ("fedasync(alpha=1.5)", r"fedasync: alpha must lie in \(0, 1\], got 1.5"),
        ("fedasync(staleness=root)", "fedasync: staleness must be one of constant, polynomial, hinge, got 'root'"),
        ("fedasync(a=-1)", "fedasync: a must be non-negative and finite, got -1"),
        ("fedasync(b=nan)", "fedasync: b must be non-negative and finite, got nan"),
        ("fedasync(most=-1)", "fedasync: most must not be negative, got -1"),
        ("rennala(size=0)", "rennala: size must be at least 1, got 0"),
        ("rennala(restart=never)", "rennala: restart must be ignore or stop, got 'never'"),
        ("malenia(size=0)", "malenia: size must be positive and finite, got 0"),
        ("malenia(restart=never)", "malenia: restart must be ignore or stop, got 'never'"),
        ("ringmaster(threshold=0)", "threshold must be a whole number of at least 1, or inf, got 0"),
        ("ringmaster(threshold=2.5)", "threshold must be a whole number of at least 1, or inf, got 2.5"),
        ("asgrad(assignment=idle)", "asgrad: assignment must be one of pure, random, shuffled, got 'idle'"),
        ("asgrad(wait=0)", "asgrad: wait must be at least 1, got 0"),
        ("asgrad(wait=7)", "wait must be at most the 6 tasks in flight, got 7; lower wait, or raise the concurrency"),
        ("aafl(alpha=0)", r"aafl: alpha must lie in \(0, 1\], got 0"),
        ("aafl(form=sum)", "aafl: form must be keep or mean, got 'sum'"),
        ("fedfix(form=sync)", "fedfix: form must be one of fix, async, buffered, got 'sync'"),
        ("fedfix(weights=equal)", "fedfix: weights must be unbiased or identical, got 'equal'"),
        ("fedfix(dt=0)", "fedfix: dt must be positive and finite, got 0"),
        ("fedfix(server_step_size=inf)", "fedfix: server_step_size must be positive and finite, got inf"),
        ("fedfix(size=0)", "fedfix: size must be at least 1, got 0"),
        ("fedcompass(alpha=0)", r"fedcompass: alpha must lie in \(0, 1\], got 0"),
        ("fedcompass(staleness=hinge)", "fedcompass: staleness must be constant or polynomial, got 'hinge'"),
        ("fedcompass(a=-1)", "fedcompass: a must be non-negative and finite, got -1"),
        ("fedcompass(least=0)", r"fedcompass: least must lie in \(0, 1\], got 0"),
        ("fedcompass(slack=0.9)", "^fedcompass: slack must be finite and at least 1, got 0.9"),
        ("fedcompass(momentum=0)", r"^fedcompass: momentum must lie in \(0, 1\], got 0"),
        ("asyncfeded(gain=0)", "asyncfeded: gain must be positive and finite, got 0"),
        ("asyncfeded(epsilon=0)", "asyncfeded: epsilon must be positive and finite, got 0"),
        ("asyncfeded(target=-1)", "asyncfeded: target must be non-negative and finite, got -1"),
        ("asyncfeded(kappa=inf)", "asyncfeded: kappa must be non-negative and finite, got inf"),
        ("asyncfeded(first=0)", "asyncfeded: first must be at least 1, got 0"),
        ("fedasync(dispatch=shuffled)", "fedasync: dispatch must be idle, pure or routed, got 'shuffled'"),
        ("delay-adaptive(threshold=0)", "delay-adaptive: threshold must be positive, got 0"),
        ("delay-adaptive(beyond=keep)", "delay-adaptive: beyond must be shrink or drop, got 'keep'"),
        ("delay-adaptive(assignment=idle)", "delay-adaptive: assignment must be one of pure, random, shuffled, got"),
        ("ringleader(refresh=1)", "algorithm ringleader: refresh must be true or false, got '1'"),
        ("ia2sgd(warmup=none)", "ia2sgd: warmup must be one of full, after, zero, got 'none'"),
        ("ia2sgd(size=0)", "ia2sgd: size must be at least 1, got 0"),
        ("ia2sgd(assignment=idle)", "ia2sgd: assignment must be pure or random, got 'idle'"),
        ("ace(most=-1)", "ace: most must not be negative, got -1"),
        ("ca2fl(size=0)", "ca2fl: size must be at least 1, got 0"),
        ("ca2fl(server_step_size=0)", "ca2fl: server_step_size must be positive and finite, got 0"),
        ("ca2fl(dispatch=pure)", "ca2fl: dispatch must be idle or routed, got 'pure'"),
        ("fadas(epsilon=0)", "fadas: epsilon must be positive and finite, got 0"),
        ("fadas(server_step_size=inf)", "fadas: server_step_size must be non-negative and finite, got inf"),
        ("fadas(beta2=1)", r"fadas: beta2 must lie in \[0, 1\), got 1"),
        ("fadas(size=0)", "fadas: size must be at least 1, got 0"),
        ("fadas(threshold=-1)", "fadas: threshold must not be negative, got -1"),
        ("fadas(dispatch=pure)", "fadas: dispatch must be idle or routed, got 'pure'"),
        ("fedasmu(sigma=-1)", "fedasmu: sigma must be non-negative and finite, got -1"),
        ("fedasmu(lam=0)", "fedasmu: mu and one of lam and iota must be positive, or no model counts; raise them"),
        ("fedasmu(upsilon=2)", r"fedasmu: upsilon must lie in \[0, 1\], got 2"),
        ("fedasmu(most=-1)", "fedasmu: most must not be negative, got -1"),
        ("aso-fed(lam=-1)", "aso-fed: lam must be non-negative and finite, got -1"),
        ("aso-fed(beta=2)", r"aso-fed: beta must lie in \[0, 1\], got 2"),
        ("aso-fed(server_step_size=0)", "aso-fed: server_step_size must be positive and finite, got 0"),
        ("fedprox(mu=-1)", "fedprox: mu must be non-negative and finite, got -1"),
        ("fedprox(deadline=0)", "fedprox: deadline must be positive and finite, got 0"),
        (
            "fedprox(deadline=1.5, interaction=1)",
            "fedprox: interaction must be 0 with a deadline, .* got 1.0; leave it out",
        ),
        ("fedprox(weights=all)", "fedprox: weights must be objective or equal, got 'all'"),
        ("fedprox(interaction=-3)", "^fedprox: interaction must be non-negative and finite, got -3"),
        ("fedavg(interaction=inf)", "^fedavg: interaction must be non-negative and finite, got inf"),
        ("favano(waiting=-1)", "^favano: waiting must be non-negative and finite, got -1"),
        ("fedprox(server_step_size=0)", "fedprox: server_step_size must be positive and finite, got 0"),
    ],
)
def test_what_cannot_be_is_refused_by_name_rule_and_value(text, message):
    with pytest.raises(InvalidInput, match=message):
        simulated(algorithm(text), PLAIN, steps=1).replay()


@pytest.mark.parametrize("name", ["fedavg", "fedprox"])
def test_a_round_needs_as_many_clients_as_tasks(name):
    with pytest.raises(InvalidInput, match=f"{name} needs concurrency <= clients, got 7 > 6; lower the concurrency"):
        simulated(algorithm(name), PLAIN, tasks=7, steps=1)


@pytest.mark.parametrize("text", [f"favano({CLOCK})", f"quafl({CLOCK})", "fedprox(deadline=1)"])
def test_methods_that_interrupt_their_clients_refuse_local_epochs(text):
    name = text.partition("(")[0]
    with pytest.raises(InvalidInput, match=f"{name} interrupts clients between local steps: epochs must not be given"):
        simulated(algorithm(text), EPOCH, steps=1)


LINKED = replace(FLEET, uplink_rate=np.array([3.0, 5.0]), downlink_rate=np.array([2.0, 1.0]))
ROUTED, PURE, SHUFFLED = "generalized-asyncsgd", "asyncsgd(assignment=pure)", "asyncsgd(assignment=shuffled)"
IDLE = "fedbuff(size=3)"


def resumed(case, stop, timeline):
    """A run that has been taken up again where another stopped."""
    begun, after = (case.replay(timeline=timeline(case.trace)) for _ in range(2))
    begun.advance(stop)
    after.restore(begun.snapshot())
    return after


@pytest.mark.parametrize("stop", [0, 33])
@pytest.mark.parametrize(
    ("text", "world"),
    [
        (ROUTED, {"tasks": 9}),
        (ROUTED, {"tasks": 20, "fleet": LINKED}),
        (ROUTED, {"tasks": 9, "server_rate": 4.0}),
        (ROUTED, {"tasks": 9, "availability": (Availability("churn", on=4.0, off=2.0, leave="lose", loss=0.2),)}),
        (PURE, {"tasks": 5}),
        (SHUFFLED, {"tasks": 8}),
        (SHUFFLED, {"tasks": 14, "fleet": LINKED}),
        (IDLE, {"tasks": 4}),
        (IDLE, {"tasks": 4, "availability": (Availability(loss=0.2),)}),
        ("fedasync", {"tasks": 5, "fleet": LINKED}),
    ],
)
def test_a_run_over_the_engine_has_the_bits_of_the_run_over_its_trace(text, world, stop):
    case = simulated(algorithm(text, MOMENTUM), THREE, weights=(1.0, 2.0), **world)
    whole, recorded, live = case.replay(), resumed(case, stop, Recorded), resumed(case, stop, lambda _: case.live())
    for replay in (whole, recorded, live):
        replay.advance(STEPS)
    assert same(recorded.snapshot(), whole.snapshot())
    assert torch.equal(live.params, whole.params)
    # the tasks in flight too: a trace may name a task before it leaves, with the same model
    assert all(torch.equal(pin.sent.params, whole.pending[name].sent.params) for name, pin in live.pending.items())
    assert (live.received, live.ended, live.tally.lost) == (whole.received, whole.ended, whole.tally.lost)
    assert ("availability" in world) == (live.tally.lost > 0)
    assert whole.ended == whole.received + whole.tally.lost


@pytest.mark.parametrize("name", ALGORITHMS)
def test_running_statistics_stay_between_those_that_clients_sent(name):
    text = f"{name}(contacts=3, waiting=2, interaction=1)" if name in ("favano", "quafl") else name
    chosen, data = algorithm(text, ServerStep(step_size=1.0)), digits()
    local = Local(steps=2, step_size=0.5, batch_size=8)
    case = simulated(chosen, local, steps=24)
    module = load_model("cnn(channels=4, norm=batch)", data, "digits", seed=1)
    federation = Federation(FlatModel(module), data, partition("classes(k=2)", data.train_y, 6, seed=1), local)
    story = SimpleNamespace(infos=[], sent=[])
    replay = Replay(
        watched(chosen, story), federation, case.trace, Setting(FLEET, case.setting.plan, np.ones(6) / 6, local)
    )
    for received in range(1, 25):
        replay.advance(received)
        known = (arrival.update.stats for _, arrival in story.infos)
        sent = torch.stack([federation.first_stats, *(one for one in known if one is not None)])
        slack = 1e-5 * sent.abs().max()
        assert (sent.amin(0) - slack <= replay.stats).all()
        assert (replay.stats <= sent.amax(0) + slack).all()
        norms = [part for part in federation.model.at(replay.params, replay.stats) if isinstance(part, nn.BatchNorm2d)]
        assert len(norms) == 2
        assert all((norm.running_var > 0).all() for norm in norms)
    assert not torch.equal(replay.stats, federation.first_stats)
