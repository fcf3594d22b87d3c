"""`python -m queuing_dynamics`: nothing has to be installed but what sojourn itself needs."""

from queuing_dynamics.commands import app
from sojourn.cli.main import run

if __name__ == "__main__":
    run(app)
