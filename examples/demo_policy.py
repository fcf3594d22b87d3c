"""A hundred clients, half of them slow, learn to read digits: the plan, AsyncSGD and FedBuff in the same time.

Every client holds two of the ten classes. Each row has the best of five step sizes by held-out examples, with the same
decay; the table shows the test set, over three other seeds. Runs that are finished are not repeated.
"""

from pathlib import Path

from sojourn import Comparison, Fleet, algorithms, compare, make_plan
from sojourn.cli.show import amount, number, say, table
from sojourn.planning.advice import Advice
from sojourn.report.advice_figure import policies_figure
from sojourn.report.figures import COLOURS, pyplot, save

FLEET = Fleet.of(fast=(50, 8.0), slow=(50, 1.0))
TIME = 2000 / 450  # in which all clients together can compute 2,000 updates
STEP_SIZES = (0.025, 0.05, 0.1, 0.2, 0.4)
SEEDS = 3
FEDBUFF = "FedBuff, buffer of 10"
JUDGED = {"test_loss": "test loss", "accuracy": "accuracy", "client_worst": "worst client"}


def plan_and_training(folder: Path) -> list[Path]:
    """Plan, print the reasons, train, print the table, and draw the picture."""
    folder.mkdir(parents=True, exist_ok=True)
    FLEET.save(folder / "fleet.csv")
    advice = make_plan(FLEET, time=TIME)
    advice.save(folder / "plan.json")
    show_policies(advice)
    for sentence in advice.why[:2]:
        say(sentence)
    say("")
    found = compare(
        FLEET,
        {"planned": advice, FEDBUFF: algorithms.FedBuff(size=10), "AsyncSGD": "asyncsgd"},
        data="digits",
        partition="classes(k=2)",
        model="mlp(hidden=32)",
        batch_size=8,
        time=TIME,
        schedule="linear(end=budget)",
        step_sizes=STEP_SIZES,
        seeds=SEEDS,
        folder=folder / "comparison",
    )
    show_trained(found)
    pictures = [*policies_figure(advice, folder / "policies"), *same_time(advice, found, folder / "same-time")]
    return [folder / "fleet.csv", folder / "plan.json", *pictures]


def show_policies(advice: Advice) -> None:
    """Print a table of what every policy achieves in the same time."""
    rows = [
        [
            row.policy.name,
            str(row.policy.plan.concurrency),
            amount(row.updates),
            *(number(value, 4) for value in (row.staleness, row.slowest, row.idle)),
        ]
        for row in advice.rows
    ]
    title = "50 clients at rate 8, 50 at rate 1: the same time under several policies (exact)"
    table(title, ["policy", "tasks", "updates", "staleness", "slowest", "idle clients"], rows)


def show_trained(found: Comparison) -> None:
    """Print a table of means over the seeds, at the end of the time."""
    means = found.to_pandas()
    rows = [
        [row["algorithm"], f"{row['step_size']:g}", *(f"{row[key]:.3f}" for key in JUDGED)]
        for _, row in means[means["axis"] == "time"].iterrows()
    ]
    title = f"digits, two classes per client, trained in that time, {SEEDS} seeds"
    table(title, ["algorithm", "step size", *JUDGED.values()], rows)
    say("")


def same_time(advice: Advice, found: Comparison, path: Path) -> list[Path]:
    """Draw where the tasks are, and what that does to accuracy, in one picture."""
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 3.4), width_ratios=(1, 1.25), layout="constrained")
    shown = {"AsyncSGD": "AsyncSGD, uniform", "planned": "robust: nobody waits"}
    rows = [next(row for row in advice.rows if row.policy.name == name) for name in shown.values()]
    waiting = [row.waiting for row in rows]
    working = [row.policy.plan.concurrency - row.waiting for row in rows]
    left.barh(list(shown), working, color=COLOURS[0], height=0.5, label="being worked on")
    left.barh(list(shown), waiting, left=working, color=COLOURS[1], height=0.5, label="waiting in queues")
    for place, row in enumerate(rows):
        left.text(2, place + 0.36, f"{row.updates:,.0f} updates", fontsize=8)
    left.set(xlabel="100 tasks in flight", ylim=(-0.45, 2.0))
    left.legend(frameon=False, fontsize=8, loc="upper right")
    for name, colour in zip(("AsyncSGD", FEDBUFF, "planned"), (COLOURS[1], "0.6", COLOURS[0]), strict=True):
        curve = [row for row in found.curves if row["algorithm"] == name and row["axis"] == "time"]
        right.plot([row["at"] for row in curve], [row["accuracy"] for row in curve], color=colour, label=name)
    right.set(xlabel="the same time", ylabel="test accuracy", xlim=(0, advice.time), ylim=(0, 1), xticks=[])
    right.legend(frameon=False, fontsize=8, loc="lower right")
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    return save(figure, path)
