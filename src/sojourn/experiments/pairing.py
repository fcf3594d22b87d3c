"""Whether the runs of a comparison are pairs: the same data, partition and first model for all algorithms of a seed."""

from sojourn.experiments.standing import Runs

SAME = {"fleet_hash": "fleet", "dataset_hash": "data", "partition_hash": "partition", "parameters": "model"}
ALIKE = ("device", "sojourn", "torch")


def unpaired(runs: Runs) -> list[str]:
    """What algorithms of one seed do not have in common, as sentences; none where all are pairs.

    Service times and batches follow from the seed, the client and the number of the task, and are the same wherever
    these are.
    """
    notes = []
    for seed in sorted({seed for mine in runs.values() for seed in mine}):
        mine = {name: every[seed] for name, every in runs.items() if seed in every}
        for key, word in SAME.items():
            if len({run.facts[key] for run in mine.values()}) > 1:
                notes.append(f"seed {seed}: the algorithms do not have the same {word}; these runs are no pairs")
        firsts = [run.rows[0]["test_loss"] for run in mine.values()]
        if max(firsts) - min(firsts) > 1e-6 * max(1.0, abs(max(firsts))):  # devices round differently
            notes.append(f"seed {seed}: the algorithms do not begin with the same model; these runs are no pairs")
    for key in ("dataset_hash", "parameters"):  # no matter of the seed
        if len({run.facts[key] for every in runs.values() for run in every.values()}) > 1:
            notes.append(
                f"the runs do not all have the same {SAME[key]}: it was changed on the way; remove the old cells"
            )
    return notes


def unused(runs: Runs) -> list[str]:
    """Settings that an algorithm does not look at, as sentences."""
    notes = []
    for name, mine in runs.items():
        keys = sorted({str(key) for run in mine.values() for key in run.facts.get("unused", [])})
        notes += [f"{key} has no effect on {name}" for key in keys]
    return notes


def mixed(runs: Runs) -> list[str]:
    """Devices and versions that the runs do not share, as sentences."""
    every = [run.identity() for mine in runs.values() for run in mine.values()]
    notes = []
    for key in ALIKE:
        values = sorted({str(one[key]) for one in every})
        if len(values) > 1:
            notes.append(f"the runs come from more than one {key}: {', '.join(values)}; runs.csv tells which")
    return notes
