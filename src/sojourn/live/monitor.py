"""Monitor: the numbers of a live run in the format of Prometheus, on 127.0.0.1 alone."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from sojourn.errors import InvalidInput

if TYPE_CHECKING:
    from sojourn.live.run import LiveRun

HOST = "127.0.0.1"
PREFIX = "sojourn_"  # of every name
HELP = {
    "updates_total": "Updates applied.",
    "tasks_in_flight": "Tasks in flight.",
    "clients_present": "Clients that are connected.",
    "lost_total": "Tasks lost: their client was gone, or took too long.",
    "dropped_total": "Tasks withdrawn before their client had them.",
    "refused_total": "Updates and messages refused.",
    "late_total": "Updates that came too late.",
    "timeouts_total": "Tasks given up because they took too long.",
    "expelled_total": "Clients expelled.",
    "staleness_mean": "Mean number of updates between dispatch and application of a task.",
    "commit_seconds": "Processor time of the last commit, in seconds.",
    "time_seconds": "Time that the run has been going, in seconds.",
    "epoch": "How often the server has been started.",
    "test_loss": "Loss of the last evaluated model.",
    "accuracy": "Accuracy of the last evaluated model.",
}


def numbers(run: "LiveRun") -> dict[str, float]:
    """Return the numbers of a run now."""
    loop, server = run.loop, run.server
    counts = {f"{key}_total": float(loop.faults.counts[key]) for key in ("lost", "dropped", "refused", "late")}
    last: Mapping[str, float | int] = run.metrics.last
    judged: dict[str, float] = {key: float(last[key]) for key in ("test_loss", "accuracy") if key in last}
    return {
        "updates_total": float(server.received),
        "tasks_in_flight": float(len(loop.pending)),
        "clients_present": float(loop.chooser.present.sum()),
        **counts,
        "timeouts_total": float(loop.faults.counts["timeouts"]),
        "expelled_total": float(loop.faults.counts["expelled"]),
        "staleness_mean": float(server.between.sum() / max(1, server.arrivals.sum())),
        "commit_seconds": run.journal.cost,
        "time_seconds": loop.now,
        "epoch": float(loop.epoch),
        **judged,
    }


def text(found: Mapping[str, float]) -> str:
    """Return numbers in the format of Prometheus.

    >>> print(text({"epoch": 2.0}), end="")
    # HELP sojourn_epoch How often the server has been started.
    # TYPE sojourn_epoch gauge
    sojourn_epoch 2.0
    """
    lines = []
    for key, value in found.items():
        kind = "counter" if key.endswith("_total") else "gauge"
        lines += [f"# HELP {PREFIX}{key} {HELP[key]}", f"# TYPE {PREFIX}{key} {kind}", f"{PREFIX}{key} {value!r}"]
    return "\n".join(lines) + "\n"


def check_port_free(port: int) -> None:
    """Refuse a port that cannot be used, before anything is done for a run; nobody who asks there is answered yet."""
    trial = ThreadingHTTPServer((HOST, port), BaseHTTPRequestHandler, bind_and_activate=False)
    try:
        trial.server_bind()
    except OSError as error:
        raise _unusable(port, error) from None
    finally:
        trial.server_close()


def _unusable(port: int, error: OSError) -> InvalidInput:
    return InvalidInput(f"metrics cannot be served at port {port}: {error.strerror}; give another port")


@contextmanager
def serving(port: int | None, found: Callable[[], Mapping[str, float]]) -> Iterator[int | None]:
    """Serve the numbers at http://127.0.0.1:PORT/metrics during the block; give the port (0 = any that is free)."""
    if port is None:
        yield None
        return

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path == "/metrics"
            body = text(found()).encode() if known else b"see /metrics\n"
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    try:
        server = ThreadingHTTPServer((HOST, port), Handler)
    except OSError as error:
        raise _unusable(port, error) from None
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="metrics", daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
