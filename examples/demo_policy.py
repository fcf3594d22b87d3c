"""A hundred clients, half of them slow, learn to read digits: the plan, AsyncSGD and FedBuff in the same time.

Every client holds two of the ten classes. Each row has the best of five step sizes by held-out examples, with the same
decay; the table shows the test set, over three other seeds. Runs that are finished are not repeated.
"""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from sojourn import Comparison, Fleet, algorithms, compare, make_plan
from sojourn.planning.advice import Advice
from sojourn.report.advice_figure import policies_figure
from sojourn.report.figures import COLOURS, pyplot, save

FLEET = Fleet.of(fast=(50, 8.0), slow=(50, 1.0))
TIME = 2000 / 450  # in which all clients together can compute 2,000 updates
STEP_SIZES = (0.025, 0.05, 0.1, 0.2, 0.4)
SEEDS = 3
FEDBUFF = "FedBuff, buffer of 10"


def plan_and_training(folder: Path, console: Console) -> list[Path]:
    """Plan, print the reasons, train, print the table, and draw the picture."""
    folder.mkdir(parents=True, exist_ok=True)
    FLEET.save(folder / "fleet.csv")
    advice = make_plan(FLEET, time=TIME)
    advice.save(folder / "plan.json")
    console.print(policies(advice))
    console.print(advice.why[0] + "\n", highlight=False)
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
    console.print(trained(found))
    pictures = [*policies_figure(advice, folder / "policies"), *same_time(advice, found, folder / "same-time")]
    return [folder / "fleet.csv", folder / "plan.json", *pictures]


def policies(advice: Advice) -> Table:
    """Return a table of what every policy achieves in the same time."""
    title = "50 clients at rate 8, 50 at rate 1: the same time under several policies (exact)"
    grid = _grid(title, "policy", "tasks", "updates", "staleness", "slowest", "idle clients")
    for row in advice.rows:
        values = (row.updates, row.staleness, row.slowest, row.idle)
        grid.add_row(row.policy.name, str(row.policy.plan.concurrency), *(f"{value:.4g}" for value in values))
    return grid


def trained(found: Comparison) -> Table:
    """Return a table of means over the seeds, at the end of the time."""
    title = f"digits, two classes per client, trained in that time, {SEEDS} seeds"
    grid = _grid(title, "algorithm", "step size", "test loss", "accuracy", "worst client")
    rows = found.to_pandas()
    for _, row in rows[rows["axis"] == "time"].iterrows():
        shares = (row["accuracy"], row["client_worst"])
        grid.add_row(
            row["algorithm"], f"{row['step_size']:g}", f"{row['test_loss']:.3f}", *(f"{share:.3f}" for share in shares)
        )
    return grid


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


def _grid(title: str, first: str, *others: str) -> Table:
    grid = Table(title=title, title_justify="left", title_style="bold", show_edge=False)
    grid.add_column(first)
    for head in others:
        grid.add_column(head, justify="right")
    return grid
