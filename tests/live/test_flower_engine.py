"""What the server does at Flower's Grid: names, queues, nodes that come and go. The Grid is pretended."""

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from pretended_grid import PretendedGrid
from torch import nn

import sojourn.flower
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.replay.local import Local
from sojourn.live.engine import Arrived, Joined, Left, Offer, Pulled, Rejected, TaskName, Work
from sojourn.live.engines.flower.exchange import FETCH, LOOK, Exchange
from sojourn.live.engines.flower.records import Carried
from sojourn.live.engines.flower.roster import ASK_AGAIN, Names

UNAVAILABLE, CRASHED = 5, 8  # Flower's codes


class Net(nn.Module):
    """With parameters, statistics, a counter, and a parameter that is not trained."""

    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.BatchNorm1d(3), nn.Linear(3, 2)
        self.fixed = nn.Parameter(torch.ones(2), requires_grad=False)

    def forward(self, x):
        return self.out(self.norm(x)) + self.fixed


def adds_one(wrong=None):
    """A ClientApp as people have it, which returns the model with 1 added to its first weights."""
    app = ClientApp(mods=[sojourn.flower.mod])

    @app.train()
    def train(message, context):
        state = message.content["arrays"].to_torch_state_dict()
        state["out.weight"] += 1
        state["norm.running_mean"] += 2
        if wrong is not None:
            wrong(state)
        metrics = MetricRecord({"train_loss": message.content["config"]["lr"], "num-examples": 3})
        return Message(RecordDict({"arrays": ArrayRecord(dict(state)), "metrics": metrics}), reply_to=message)

    return app


class Server:
    """An exchange with a clock of its own."""

    def __init__(self, app=None, prefetch=False, clients=3, known=(), wishes=()):
        torch.manual_seed(0)
        self.model = FlatModel(Net())
        self.grid, self.clock, self.sent = PretendedGrid(app or adds_one()), 0.0, 0
        work = Work(self.model.params.numel(), self.model.stats.numel(), Local(), 0, "shuffled", prefetch)
        self.said = []
        names = Names(dict(known), range(clients), dict(wishes))
        self.exchange = Exchange(self.grid, work, Carried(self.model), names, lambda: self.clock, {}, self.said.append)

    def turn(self, seconds=0.0):
        """Let time pass, and return what has happened by then."""
        self.clock += seconds
        return self.exchange.turn()

    def offer(self, client, nth=0):
        name = TaskName(client, nth, 1)
        self.exchange.offer(Offer(name, self.model.params.clone(), self.model.stats.clone(), 7, 0.5, 1))
        return name

    def join(self, name, **about):
        """Start a node and let it say its name; return its number and what has happened."""
        node = self.grid.start(name, **about)
        self.turn(LOOK)
        self.grid.work(node)
        return node, self.turn(FETCH)


def kinds(events):
    return [type(one) for one in events]


def test_a_node_is_asked_for_its_name_before_it_gets_tasks():
    server = Server()
    node, events = server.join("oslo")
    assert events == [Joined(0, ())]
    assert server.exchange.names.numbers == {"oslo": 0}
    assert not server.grid.nodes[node].inbox


def test_the_update_is_how_the_model_has_changed():
    server = Server()
    node, _ = server.join("oslo")
    name = server.offer(0)
    assert server.turn() == [Pulled(name, server.clock)]
    server.grid.work(node)
    arrived = server.turn(4.0)[0]
    expected = torch.cat([torch.zeros(6), torch.ones(6), torch.zeros(2)])  # of the norm, of the weights, of the bias
    torch.testing.assert_close(arrived.update.delta, expected)
    assert arrived.update.stats.tolist() == [2, 2, 2, 1, 1, 1]
    assert (arrived.name, arrived.update.step_size, arrived.update.steps) == (name, 0.5, 1)
    assert float(arrived.update.loss) == 0.5  # the step size, as the app was told it


def test_service_lasts_from_when_the_node_could_begin_until_the_update_is_here():
    server = Server(prefetch=True)
    node, _ = server.join("oslo")
    first, second = server.offer(0), server.offer(0, 1)
    assert server.turn() == [Pulled(first, server.clock)]
    assert len(server.grid.nodes[node].inbox) == 2
    server.grid.work(node)
    assert kinds(server.turn(10.0)) == [Pulled, Arrived]
    server.grid.work(node)
    arrived = server.turn(3.0)[0]
    assert (arrived.name, arrived.service, arrived.held) == (second, 3.0, 3.0)


def test_a_node_holds_one_task_and_two_where_clients_prefetch():
    for prefetch, many in ((False, 1), (True, 2)):
        server = Server(prefetch=prefetch)
        node, _ = server.join("oslo")
        for nth in range(4):
            server.offer(0, nth)
        server.turn()
        assert len(server.grid.nodes[node].inbox) == many


def test_a_task_that_waits_can_be_withdrawn_and_one_in_the_hands_of_a_node_still_arrives():
    server = Server()
    node, _ = server.join("oslo")
    first, second = server.offer(0), server.offer(0, 1)
    server.turn()
    for name in (first, second):
        server.exchange.withdraw(name)
    server.grid.work(node)
    events = server.turn(FETCH)
    assert [one.name for one in events] == [first]
    assert not server.grid.nodes[node].inbox


def test_a_node_that_comes_back_under_another_number_keeps_its_clients_number():
    server = Server()
    node, _ = server.join("oslo")
    server.join("lyon")
    name = server.offer(0)
    server.turn()
    again, events = server.join("oslo")  # the old number still counts as online, as Flower has it for a minute
    assert again != node
    assert events == [Left(0, "another SuperNode has joined as oslo"), Joined(0, ())]
    server.exchange.withdraw(name)  # what the loop does with a task that is lost
    server.grid.kill(node)
    assert server.turn(LOOK) == []
    server.offer(0, 1)
    server.turn()
    assert len(server.grid.nodes[again].inbox) == 1


def test_a_node_that_was_started_again_under_its_number_has_left_and_joins_again():
    server = Server()
    node, _ = server.join("oslo")
    server.offer(0)
    server.turn()
    server.grid.start("oslo", node=node)
    assert server.turn(LOOK) == [Left(0, "its SuperNode has left")]
    server.grid.work(node)
    assert server.turn(FETCH) == [Joined(0, ())]


def test_a_node_that_is_gone_has_left():
    server = Server()
    node, _ = server.join("oslo")
    server.grid.kill(node)
    assert server.turn(LOOK) == [Left(0, "its SuperNode has left")]


def test_sending_to_a_dead_node_fails_once_and_is_not_tried_again():
    server = Server()
    node, _ = server.join("oslo")
    server.grid.kill(node)
    name = server.offer(0)
    pushed = server.grid.pushed
    assert server.turn() == [Left(0, "its SuperNode takes no messages")]
    for _ in range(100):
        assert server.turn() == []
    assert server.grid.pushed == pushed + 1
    server.exchange.withdraw(name)
    assert server.join("oslo")[1] == [Joined(0, ())]


@pytest.mark.parametrize(("code", "reason"), [(UNAVAILABLE, "its SuperNode does not answer"), (3, "its message")])
def test_a_task_that_flower_gives_up_means_that_its_client_has_left(code, reason):
    server = Server()
    node, _ = server.join("oslo")
    server.offer(0)
    server.turn()
    server.grid.fail(node, code, "Node Unavailable")
    (event,) = server.turn(FETCH)
    assert event.client == 0
    assert event.reason.startswith(reason)


def test_a_client_whose_process_crashed_has_lost_its_task_and_is_there():
    server = Server()
    node, _ = server.join("oslo")
    server.offer(0)
    server.turn()
    server.grid.fail(node, CRASHED, "killed")
    assert server.turn(FETCH) == [Left(0, "its ClientApp has crashed"), Joined(0, ())]
    server.offer(0, 1)
    server.turn()
    assert len(server.grid.nodes[node].inbox) == 1


def wrong_shape(state):
    state["out.weight"] = torch.zeros(5, 5)


def missing(state):
    del state["out.bias"]


def not_finite(state):
    state["out.bias"][0] = torch.nan


def failing(state):
    raise RuntimeError("no data here")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (wrong_shape, "the arrays are not those of the model"),
        (missing, "the arrays are not those of the model"),
        (not_finite, "an update must have finite numbers only"),
        (failing, "its ClientApp has failed"),
    ],
)
def test_an_update_that_breaks_a_rule_is_rejected(wrong, reason):
    server = Server(adds_one(wrong))
    node, _ = server.join("oslo")
    name = server.offer(0)
    server.turn()
    server.grid.work(node)
    (event,) = server.turn(FETCH)
    assert isinstance(event, Rejected)
    assert (event.client, event.name) == (0, name)
    assert event.reason.startswith(reason)


def test_a_node_may_only_have_the_name_that_it_was_registered_with():
    server = Server()
    node, events = server.join("oslo", registered="lyon")
    assert events == []
    assert "registered as 'lyon'" in server.said[-1]
    for _ in range(5):
        server.turn(ASK_AGAIN)
    assert not server.grid.nodes[node].inbox
    assert server.join("oslo", registered="oslo")[1] == [Joined(0, ())]


def test_a_node_without_a_name_is_told_how_to_get_one_and_asked_again_later():
    server = Server()
    node, events = server.join(None)
    assert events == []
    assert "--node-config" in server.said[-1]
    server.turn(LOOK)
    assert not server.grid.nodes[node].inbox
    server.turn(ASK_AGAIN)
    assert len(server.grid.nodes[node].inbox) == 1


def test_an_app_without_the_mod_cannot_join_and_the_log_says_what_it_needs():
    app = ClientApp()
    app.train()(lambda message, context: Message(message.content["arrays"], reply_to=message))
    server = Server()
    assert server.join("oslo", app=app)[1] == []
    assert "sojourn.flower.mod" in server.said[-1]


def test_a_fleet_whose_clients_all_have_names_admits_no_others():
    server = Server(clients=1)
    server.join("oslo")
    assert server.join("lyon")[1] == []
    assert "all have names" in server.said[-1]


def test_names_of_the_fleet_get_their_own_numbers_and_others_the_first_that_is_free():
    server = Server(clients=3, known={"porto": 2}, wishes={"fast-0": 0, "slow-0": 1, "slow-1": 2})
    assert [server.join(name)[1][-1].client for name in ("slow-0", "oslo", "porto")] == [1, 0, 2]


def test_an_expelled_client_gets_nothing_and_cannot_join_again():
    server = Server()
    node, _ = server.join("oslo")
    server.offer(0)
    server.turn()
    server.exchange.expel(0, "3 messages were refused")
    server.grid.work(node)
    assert server.turn(LOOK) == []
    assert server.join("oslo")[1] == []
    assert "was expelled" in server.said[-1]


def test_a_model_travels_as_its_state_dict_and_comes_back_the_same():
    torch.manual_seed(1)
    module = Net()
    flat = FlatModel(module)
    params, stats = torch.randn(flat.params.shape), torch.rand(flat.stats.shape)
    carried = Carried(flat)
    record = carried.arrays(params, stats)
    assert list(record) == list(module.state_dict())
    for found in (carried.flat(record), carried.whole(carried.pieces(params, stats))):
        for mine, there in zip((params, stats), found, strict=True):
            np.testing.assert_array_equal(mine, there)
