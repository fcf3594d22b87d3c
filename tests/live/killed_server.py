"""`sojourn` with a server that is killed at a moment of its end.

python killed_server.py MOMENT live server SERVER.toml
"""

import os
import signal
import sys

from sojourn.cli.main import run
from sojourn.live.engines.grpc.server import GrpcEngine
from sojourn.live.run import LiveRun


def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    moment = sys.argv.pop(1)
    if moment == "before the summary":
        LiveRun._finish = kill
    else:
        assert moment == "before the farewell"
        GrpcEngine.stop = kill
    run()
