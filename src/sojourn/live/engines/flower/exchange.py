"""Exchange: what the server does at Flower's Grid, one turn after the other; it knows no threads.

In a turn it looks who is there, asks new nodes for their names, hands over tasks, and fetches replies. A node holds one
task, or two where clients prefetch; the rest waits here. Sending to a node that is gone fails at once: its client has
then left, and the node is not tried again before the next look.

A SuperNode works on one message after the other, and starts a process for each. So the service of a task lasts from
when its node could begin it to when its update is here: it includes the process, the polls and the way.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flwr.app import Message, RecordDict

from sojourn.errors import InvalidInput
from sojourn.live.engine import Arrived, Event, Joined, Left, Offer, Pulled, Rejected, TaskName, Work
from sojourn.live.engines.flower.records import Carried, task_content, update_of
from sojourn.live.engines.flower.roster import ASK_AGAIN, Handed, Member, Names, Node
from sojourn.live.engines.flower.words import TRAIN, name_in, question

LOOK = 2.0  # seconds between two looks at the nodes
FETCH = 0.5  # seconds between two looks for replies
GONE = {3: "its message has expired", 4: "its reply has expired", 5: "its SuperNode does not answer"}  # Flower's codes
CRASHED = 8
LONGEST = 300  # characters of a reason that a client gives

Say = Callable[[str], None]


class Exchange:
    """Nodes, their clients, and the messages on their way."""

    def __init__(
        self,
        grid: Any,
        work: Work,
        model: Carried,
        names: Names,
        clock: Callable[[], float],
        more: Mapping[str, Any],
        say: Say = lambda text: None,
    ) -> None:
        """`more` are values for the training functions of clients; `say` is told what no event can say."""
        self.names = names
        self._grid, self._work, self._model, self._clock = grid, work, model, clock
        self._more, self._say = dict(more), say
        self._nodes: dict[int, Node] = {}
        self._members: dict[int, Member] = {}
        self._events: deque[Event] = deque()
        self._look_at = self._fetch_at = 0.0
        self._depth = 2 if work.prefetch else 1

    # What the loop says.

    def offer(self, offer: Offer) -> None:
        """Put a task into its client's queue."""
        self._member(offer.name.client).queue[offer.name] = offer

    def withdraw(self, name: TaskName) -> None:
        """Forget a task that waits here; one that a node has stays in its hands, and its update becomes an event."""
        self._member(name.client).queue.pop(name, None)

    def expel(self, client: int, reason: str) -> None:
        """Admit a client no more."""
        self.names.expel(client, reason)
        self._part(self._member(client))

    # A turn.

    def turn(self) -> list[Event]:
        """Do what is due, and return what has happened."""
        now = self._clock()
        if now >= self._look_at:
            self._look_at = now + LOOK
            self._look(now)
        self._hand_over()
        if now >= self._fetch_at:
            self._fetch_at = now + FETCH
            self._fetch()
            self._hand_over()
        found, self._events = list(self._events), deque()
        return found

    def _look(self, now: float) -> None:
        """Take note of nodes that came and went, and ask those that are new for their names."""
        there = {int(one.node_id): one for one in self._grid.get_nodes()}
        for node in list(self._nodes.values()):
            if node.id not in there or str(there[node.id].last_activated_at) != node.since:
                self._gone(node, "its SuperNode has left")
        for number, info in there.items():
            if number not in self._nodes:
                self._nodes[number] = Node(number, str(info.last_activated_at), str(info.name))
        for node in list(self._nodes.values()):
            if node.client is None and node.question is None and now >= node.ask_at:
                node.question = self._push(question(), node.id, "0")
                if node.question is None:
                    del self._nodes[node.id]

    def _hand_over(self) -> None:
        """Hand tasks to the nodes that have room."""
        for member in list(self._members.values()):
            while member.node is not None and member.queue and len(member.hands) < self._depth:
                name, offer = member.queue.popitem(last=False)
                content = task_content(offer, self._work, self._model, self._more)
                message = self._push(content, member.node, str(offer.step))
                if message is None:
                    member.queue[name] = offer  # the loop takes it back when it hears that the client has left
                    self._gone(self._nodes[member.node], "its SuperNode takes no messages")
                    break
                member.hands[message] = Handed(offer, member.node)
                self._begin_first(member, self._clock())

    def _fetch(self) -> None:
        """Fetch the replies that are there."""
        waiting = [*self._questions(), *(message for one in self._members.values() for message in one.hands)]
        if not waiting:
            return
        replies, now = self._grid.pull_messages(waiting), self._clock()
        for reply in replies:
            about = reply.metadata.reply_to_message_id
            node = self._questions().get(about)
            member = next((one for one in self._members.values() if about in one.hands), None)
            if node is not None:
                node.question = None
                self._named(node, reply, now)
            elif member is not None:
                self._answered(member, about, reply, now)

    # Names.

    def _named(self, node: Node, reply: Message, now: float) -> None:
        """A node has answered the question for its name."""
        node.ask_at = float("inf")
        if reply.has_error():
            if reply.error.code in GONE:
                del self._nodes[node.id]
                return
            node.ask_at = now + ASK_AGAIN
            reason = str(reply.error.reason)[:LONGEST]
            self._say(f"node {node.id} cannot join: {reason}; its ClientApp needs sojourn.flower.mod or client_app")
            return
        name = name_in(reply.content) or node.registered
        try:
            number = self.names.number(name, node.registered)
        except InvalidInput as error:
            self._say(f"node {node.id} is refused: {error}")
            return
        member = self._member(number)
        if member.node is not None:
            self._gone(self._nodes[member.node], f"another SuperNode has joined as {name}", forget=False)
        node.client, member.node = number, node.id
        self._say(f"node {node.id} has joined as {name}, client {number}")
        self._events.append(Joined(number, ()))

    # Updates.

    def _answered(self, member: Member, message: str, reply: Message, now: float) -> None:
        """A node has answered a task."""
        handed = member.hands.pop(message)
        name, node = handed.offer.name, self._nodes[handed.node]
        if reply.has_error() and reply.error.code in GONE:
            self._gone(node, GONE[reply.error.code])
            return
        if reply.has_error() and reply.error.code == CRASHED:
            self._part(member)
            node.client, member.node = member.number, node.id
            self._events += [Left(member.number, "its ClientApp has crashed"), Joined(member.number, ())]
            return
        began = handed.first_at if handed.first_at is not None else now
        self._begin_first(member, now)
        try:
            if reply.has_error():
                raise InvalidInput(f"its ClientApp has failed: {str(reply.error.reason)[:LONGEST]}")
            self._check_name(member, reply.content)
            update = update_of(reply.content, handed.offer, self._model)
        except InvalidInput as error:
            self._events.append(Rejected(member.number, name, str(error)))
            return
        self._events.append(Arrived(name, update, now - began, now - began, now, _size(reply.content)))

    def _check_name(self, member: Member, content: RecordDict) -> None:
        said = name_in(content)
        if said and self.names.numbers.get(said) != member.number:
            raise InvalidInput(f"the update is signed by another client, {said!r}")

    # Clients.

    def _member(self, number: int) -> Member:
        if number not in self._members:
            self._members[number] = Member(number)
        return self._members[number]

    def _questions(self) -> dict[str, Node]:
        return {node.question: node for node in self._nodes.values() if node.question is not None}

    def _begin_first(self, member: Member, now: float) -> None:
        """Note when the first task in a client's hands can begin."""
        first: Handed | None = next(iter(member.hands.values()), None)
        if first is not None and first.first_at is None:
            first.first_at = now
            self._events.append(Pulled(first.offer.name, now))

    def _gone(self, node: Node, reason: str, forget: bool = True) -> None:
        """A node is gone, and its client with it; with `forget` it is new if it comes back."""
        if forget:
            self._nodes.pop(node.id, None)
        member = None if node.client is None else self._member(node.client)
        node.client = node.question = None
        node.ask_at = float("inf")
        if member is not None and member.node == node.id:
            self._part(member)
            self._events.append(Left(member.number, reason))

    def _part(self, member: Member) -> None:
        """Let a client go, and forget the tasks in its hands."""
        if member.node in self._nodes:
            self._nodes[member.node].client = None
        member.node = None
        member.hands.clear()

    def _push(self, content: RecordDict, node: int, group: str) -> str | None:
        """Send a message to a node, and return its id; None = the node is gone."""
        message = Message(content, dst_node_id=node, message_type=TRAIN, group_id=group)
        return next(_known(self._grid.push_messages([message])), None)


def _known(found: Any) -> Iterator[str]:
    """Return the ids of messages that were accepted."""
    return (one for one in found if one)


def _size(content: RecordDict) -> int:
    """Return the bytes of the arrays of a reply."""
    return sum(len(one.data) for record in content.array_records.values() for one in record.values())
