"""Somebody else's program at the port of a server that has gone: it answers everything, and keeps what comes."""

from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

SAID = b"0" * 64  # as long as a proof


@contextmanager
def stranger_at(port):
    """Serve the stranger, and give what it hears: paths, and the heads and bodies of the requests."""
    heard = []

    class Stranger(BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            heard.append((self.path.partition("?")[0], f"{self.headers}{body.decode()}"))
            self.send_response(200)
            self.send_header("Content-Length", str(len(SAID)))
            self.end_headers()
            self.wfile.write(SAID)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Stranger) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield heard
        finally:
            server.shutdown()
