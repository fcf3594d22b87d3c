"""Train the runs that no ledger holds yet: `python -m sojourn.paper.tinyimagenet trials --results results`."""

from sojourn.paper.tinyimagenet.stages import TRAINING

if __name__ == "__main__":
    TRAINING.command()
