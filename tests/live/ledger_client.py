"""`sojourn live client` with a ledger: every answer of the server about an update is written down before it is used.

python ledger_client.py LEDGER CLIENT.toml
"""

import sys

from sojourn.cli.main import run
from sojourn.live.engines.grpc import client
from sojourn.live.engines.grpc import federation_pb2 as pb
from sojourn.live.engines.grpc.calls import Calls


class WrittenDown(Calls):
    """Calls whose answers are written to a file, a line each: what, client, nth, epoch."""

    async def pull(self, session, seen):
        reply, data = await super().pull(session, seen)
        for name in reply.acknowledged:
            note("acknowledged", name)
        for one in reply.refused:
            note("refused", one.name)
        return reply, data

    async def push(self, head, content, joining):
        reply = await super().push(head, content, joining)
        if reply.answer == pb.ANSWER_ACKNOWLEDGED:
            note("acknowledged", head.name)
        if reply.answer == pb.ANSWER_REFUSED:
            note("refused", head.name)
        return reply


def note(what, name):
    with open(LEDGER, "a", encoding="utf-8") as file:
        file.write(f"{what} {name.client} {name.nth} {name.epoch}\n")


if __name__ == "__main__":
    LEDGER = sys.argv.pop(1)
    sys.argv[1:1] = ["live", "client"]
    client.Calls = WrittenDown
    run()
