"""A pretended Grid: SuperNodes that answer when a test says so, with real messages of Flower."""

from itertools import count
from types import SimpleNamespace

from flwr.app import Context, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity


class PretendedNode:
    """A SuperNode: its inbox, and the app that answers for it."""

    def __init__(self, number, app, name, since, registered, **config):
        self.info = SimpleNamespace(node_id=number, last_activated_at=since, name=registered)
        self.app, self.inbox = app, []
        named = {} if name is None else {"name": name}
        self.context = Context(1, number, {**named, **config}, RecordDict(), {})


class PretendedGrid:
    """Nodes that come and go; `work` lets a node answer the first message of its inbox."""

    def __init__(self, app):
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1  # as in a ServerApp
        self.app, self.nodes, self.pushed = app, {}, 0
        self._replies, self._numbers, self._starts = {}, count(1), count(1)

    def start(self, name=None, node=None, registered="", app=None, **config):
        """Start a SuperNode, under a new number unless one is given; return its number."""
        number = next(self._numbers) * 1000 if node is None else node
        made = PretendedNode(number, app or self.app, name, f"start {next(self._starts)}", registered, **config)
        self.nodes[number] = made
        return number

    def kill(self, node):
        """Kill a SuperNode: the SuperLink forgets it, and what it held is gone."""
        del self.nodes[node]

    def work(self, node):
        """Let a node answer its first message."""
        one = self.nodes[node]
        message_id, message = one.inbox.pop(0)
        try:
            reply = one.app(message, one.context)
        except Exception as error:
            reply = Message(Error(2, f"{type(error)}:<'{error}'>"), reply_to=message)
        self.reply(message_id, reply)

    def fail(self, node, code, reason):
        """Answer the first message of a node with an error of Flower's."""
        message_id, message = self.nodes[node].inbox.pop(0)
        self.reply(message_id, Message(Error(code, reason), reply_to=message))

    def reply(self, message_id, reply):
        reply.metadata.__dict__["_reply_to_message_id"] = message_id
        self._replies[message_id] = reply

    # What Flower's Grid has.

    def get_nodes(self):
        return [one.info for one in self.nodes.values()]

    def push_messages(self, messages):
        self.pushed += 1
        ids = []
        for message in messages:
            node = self.nodes.get(message.metadata.dst_node_id)
            message_id = f"message {self.pushed}"
            if node is not None:
                node.inbox.append((message_id, message))
            ids.append(message_id if node is not None else "")
        return ids

    def pull_messages(self, message_ids):
        return [self._replies.pop(one) for one in list(message_ids) if one in self._replies]
