"""`python -m sojourn` is the command line."""

from sojourn.cli.main import run

run()
