"""`sojourn` and `python -m sojourn` are the command line."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C before a command has begun ends it without a traceback."""
    try:
        from sojourn.cli.main import run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
