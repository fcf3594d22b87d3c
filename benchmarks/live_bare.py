"""The bare side of the live benchmark: gRPC with two calls and nothing else.

Pull returns the bytes of the model, Push adds an update to it in place. Whoever calls and which part of the array is
meant is in the metadata, so that a message is nothing but numbers. Arrays above 2 MiB travel in chunks of 1 MiB, four
at a time. TLS with certificates of clients is that of a live run; a token is sent with every call and not looked at.
"""

import asyncio
import threading
from typing import Any

import grpc
import numpy as np
from live_process import Control

from sojourn.live.engines.grpc.calls import OPTIONS as CLIENT_OPTIONS
from sojourn.live.engines.grpc.server import OPTIONS
from sojourn.live.engines.grpc.wire import CHUNK, HEAD, WHOLE, WINDOW
from sojourn.live.loaded_keys import ClientKeys, ServerKeys

SERVICE = "bare"


def serve(control: Control, keys: str, parameters: int) -> None:
    """Serve until told to end."""
    asyncio.run(_serve(control, ServerKeys.load(keys), parameters))


async def _serve(control: Control, keys: ServerKeys, parameters: int) -> None:
    model = np.zeros(parameters, np.float32)
    whole = memoryview(model).cast("B")
    chunk = chunk_of(len(whole))
    seen: dict[str, int] = {}

    async def pull(content: bytes, context: Any) -> bytes:
        told = dict(context.invocation_metadata())
        seen[told["client"]] = seen.get(told["client"], 0)
        offset = int(told["offset"])
        return bytes(whole[offset : offset + chunk])

    async def push(content: bytes, context: Any) -> bytes:
        told = dict(context.invocation_metadata())
        offset = int(told["offset"])
        part = np.frombuffer(content, np.float32)
        model[offset // 4 : offset // 4 + part.size] += part
        if offset + chunk >= len(whole):
            seen[told["client"]] += 1
            control.steps += 1
        return b""

    server = grpc.aio.server(options=[*OPTIONS, ("grpc.max_receive_message_length", WHOLE + 2 * HEAD)])
    calls = {"Pull": pull, "Push": push}
    methods = {name: grpc.unary_unary_rpc_method_handler(call) for name, call in calls.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    credentials = grpc.ssl_server_credentials([(keys.key, keys.certificate)], keys.authority, True)
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    control.ready(f"127.0.0.1:{port}")
    await _set(control.stop)
    await server.stop(None)


def join(control: Control, address: str, keys: str, clients: list[str], parameters: int) -> None:
    """Pull and push, all clients over one connection, until told to end."""
    asyncio.run(_join(control, address, ClientKeys.load(keys), clients, parameters))


async def _join(control: Control, address: str, keys: ClientKeys, clients: list[str], parameters: int) -> None:
    gradient = np.full(parameters, 1e-6, np.float32).tobytes()
    chunk = chunk_of(len(gradient))
    parts = {offset: gradient[offset : offset + chunk] for offset in range(0, len(gradient), chunk)}
    credentials = grpc.ssl_channel_credentials(keys.authority, keys.key, keys.certificate)
    channel = grpc.aio.secure_channel(address, credentials, CLIENT_OPTIONS)
    pull, push = (channel.unary_unary(f"/{SERVICE}/{name}") for name in ("Pull", "Push"))

    async def all_parts(call: Any, name: str, content: dict[int, bytes]) -> None:
        waiting = iter(content.items())

        async def some() -> None:
            for offset, part in waiting:
                told = (("authorization", f"Bearer {keys.token}"), ("client", name), ("offset", str(offset)))
                await call(part, metadata=told)

        await asyncio.gather(*(some() for _ in range(min(WINDOW, len(content)))))

    async def one(name: str) -> None:
        while not control.stop.is_set():
            if not control.gate.is_set():
                await asyncio.sleep(0.02)
                continue
            await all_parts(pull, name, dict.fromkeys(parts, b""))
            await all_parts(push, name, parts)

    control.ready("")
    await asyncio.gather(*map(one, clients))
    await channel.close()


def chunk_of(size: int) -> int:
    """Return the bytes of a message, as in a live run."""
    return size if size <= WHOLE else CHUNK


async def _set(event: threading.Event) -> None:
    while not event.is_set():
        await asyncio.sleep(0.1)
