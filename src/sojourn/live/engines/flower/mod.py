"""The mod for an app that trains with Flower already, and an app that has it.

Flower imports them for every message, so they import little.
"""

from collections.abc import Callable

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from sojourn.errors import InvalidInput
from sojourn.live.engines.flower.words import NAME, asked, signed
from sojourn.live.registry import check_name

KEY = "name"  # of the node's configuration


def mod(message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
    """Answer for the node: say its name when it is asked, and sign what its training function returns.

    Messages of other servers pass through unchanged.
    """
    ask = asked(message)
    if ask is None:
        return call_next(message, context)
    name = name_of(context)
    if ask.what == NAME:
        return Message(signed(RecordDict(), name), reply_to=message)
    reply = call_next(message, context)
    if reply.has_content():
        reply.content = signed(reply.content, name)
    return reply


def name_of(context: Context) -> str:
    """Return the client's own name, from the configuration of its node."""
    found = context.node_config.get(KEY)
    if found is None:
        raise InvalidInput("a SuperNode needs a name of its own, got none; start it with --node-config 'name=\"oslo\"'")
    return check_name(str(found))


def app_of(train: Callable[[Message, Context], Message]) -> ClientApp:
    """Return an app with this training function and the mod."""
    app = ClientApp(mods=[mod])
    app.train()(train)
    return app
