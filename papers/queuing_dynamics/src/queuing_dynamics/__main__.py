"""`python -m queuing_dynamics`: it needs only what sojourn itself needs."""

from queuing_dynamics.commands import app
from sojourn.cli.main import run

if __name__ == "__main__":
    run(app)
