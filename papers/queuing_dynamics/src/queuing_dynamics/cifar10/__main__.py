"""Train the runs that no ledger holds yet: `python -m sojourn.paper.cifar10 search --results results`."""

from sojourn.paper.cifar10.stages import TRAINING

if __name__ == "__main__":
    TRAINING.command()
