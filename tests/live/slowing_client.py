"""`sojourn live client` whose clients become slower: while a file exists, tasks of some take so many times as long.

python slowing_client.py FILE FACTOR BELOW CLIENT.toml     slows the clients whose number is below BELOW
"""

import sys
from pathlib import Path

from sojourn.cli.main import run
from sojourn.live import pace

if __name__ == "__main__":
    file, factor, below = Path(sys.argv.pop(1)), float(sys.argv.pop(1)), int(sys.argv.pop(1))
    usual = pace.Pace.__call__

    def slowed(self, client, nth):
        return usual(self, client, nth) * (factor if client < below and file.exists() else 1.0)

    pace.Pace.__call__ = slowed
    sys.argv[1:1] = ["live", "client"]
    run()
