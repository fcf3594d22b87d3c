"""A TCP proxy that hands on what it gets after a delay, both ways: a slow link where there are no namespaces."""

import asyncio
import threading

CHUNK = 65_536
ENOUGH = 60.0  # seconds for the proxy to start or to stop


class LateProxy:
    """Listens at an address and connects each caller to a target; bytes take `delay` seconds each way."""

    def __init__(self, address, target, delay):
        self._target, self._delay = target, delay
        self._loop = asyncio.new_event_loop()
        self._open = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="late-proxy", daemon=True)
        self._thread.start()
        starting = asyncio.start_server(self._called, *address)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(ENOUGH)
        self.address = self._server.sockets[0].getsockname()

    def close(self):
        """Stop, and cut all connections."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(ENOUGH)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ENOUGH)
        self._loop.close()

    async def _close(self):
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()

    async def _called(self, reader, writer):
        mine = asyncio.current_task()
        self._open.add(mine)
        try:
            there, back = await asyncio.open_connection(*self._target)
            try:
                await asyncio.gather(self._hand_on(reader, back), self._hand_on(there, writer))
            finally:
                back.close()
        except (OSError, asyncio.CancelledError):
            pass  # the target is not there, or the test is over: the caller sees a broken connection
        finally:
            writer.close()
            self._open.discard(mine)

    async def _hand_on(self, reader, writer):
        loop, way = asyncio.get_running_loop(), asyncio.Queue()

        async def deliver():
            while True:
                due, content = await way.get()
                await asyncio.sleep(due - loop.time())
                if not content:
                    writer.write_eof() if writer.can_write_eof() else writer.close()
                    return
                writer.write(content)
                await writer.drain()

        delivering = asyncio.ensure_future(deliver())
        try:
            content = b"-"
            while content:
                content = await reader.read(CHUNK)
                way.put_nowait((loop.time() + self._delay, content))
            await delivering
        finally:
            delivering.cancel()
