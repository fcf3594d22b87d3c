"""The calls of the service as gRPC wants them: bytes in, bytes out, refusals as status codes."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

from sojourn.live.engines.grpc.admission import CODE, Refused
from sojourn.live.engines.grpc.service import Service
from sojourn.live.engines.grpc.wire import METHODS, SERVICE, Malformed


def handlers(service: Service) -> Any:
    """Return the handler of all calls."""
    calls = {name: getattr(service, name.lower()) for name in METHODS}
    methods = {name: grpc.unary_unary_rpc_method_handler(_answering(call, service)) for name, call in calls.items()}
    methods["Watch"] = grpc.unary_stream_rpc_method_handler(_streaming(service.watch, service))
    return grpc.method_handlers_generic_handler(SERVICE, methods)


def _answering(call: Callable[[bytes, Any], Any], service: Service) -> Callable[[bytes, Any], Any]:
    """Return the call such that refusals become status codes."""

    async def answer(content: bytes, context: Any) -> Any:
        try:
            return await call(content, context)
        except Refused as refusal:
            service.refused(refusal, context)
            return await context.abort(refusal.code, refusal.reason)
        except Malformed:
            return await context.abort(CODE.INVALID_ARGUMENT, "the message is malformed")

    return answer


def _streaming(
    call: Callable[[bytes, Any], AsyncIterator[bytes]], service: Service
) -> Callable[[bytes, Any], AsyncIterator[bytes]]:
    """Return the call with a stream such that refusals become status codes."""

    async def answer(content: bytes, context: Any) -> AsyncIterator[bytes]:
        try:
            async for message in call(content, context):
                yield message
        except Refused as refusal:
            service.refused(refusal, context)
            await context.abort(refusal.code, refusal.reason)
        except Malformed:
            await context.abort(CODE.INVALID_ARGUMENT, "the message is malformed")

    return answer
