"""Compare Gamma and the scaling limits with the exact law, for two and for three clusters.

The paper replaces the network by a limit: queues of the near cluster become Gamma(c) / (theta_s/theta_f - 1), and
delays are bounded by lambda / mu_i (E[X_i] + 1) with lambda, the sum of all rates, at least the throughput. The closed
forms that it prints approximate bounds of a limit superior: they set Gamma = 1, and the "+1" has vanished with the
scaling; one lambda has mu_s twice. Here each form, with and without the 1, is compared with the exact value, always in
the inclusive count, which is what the integral of the proposition on m_i counts.
"""

from pathlib import Path
from typing import Any

import numpy as np

from queuing_dynamics import three_clusters, two_clusters
from queuing_dynamics.delays import TASKS
from sojourn.csv_file import write_csv
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.report.figures import COLOURS, pyplot, save
from sojourn.report.reproduction.claim import STROKE, Claim, claim, near, numbers, plain
from sojourn.report.reproduction.experiment import Experiment, Watch
from sojourn.timing.exact.analysis import analyze
from sojourn.timing.exact.scaling import Regime, gamma_limit, gamma_paper, regime

FLEETS = {"two clusters": two_clusters.FLEET, "three clusters": three_clusters.FLEET}
CLUSTERS = ((1, 1), (5, 5))
MANY = 20_000
UPPER = "not below the throughput: it stands in upper bounds only"
EXCESS = np.geomspace(0.1, 200, 40)


def exact_gamma(near_clients: int, slow_clients: int, c: float, tasks: int = MANY) -> float:
    """Return the near queue of the network itself times theta_s/theta_f - 1, at (C + 1)(theta_s/theta_f - 1) = c."""
    excess = c / (tasks + 1)
    fleet = Fleet.of(near=(near_clients, 1 + excess), slow=(slow_clients, 1.0))
    return float(analyze(fleet, Plan.uniform(fleet, tasks)).queue[0] * excess)


def run(folder: Path, fast: bool, watch: Watch) -> list[Claim]:
    """Compute Gamma over c, and both fleets of the paper."""
    rows = []
    for clients in CLUSTERS:
        for done, c in enumerate(EXCESS):
            watch(f"Gamma with {clients[0]} and {clients[1]} clients", done, EXCESS.size)
            rows.append(_gammas(clients, float(c)))
    write_csv(folder / "gamma.csv", rows)
    regimes = {name: regime(analyze(fleet, Plan.uniform(fleet, TASKS))) for name, fleet in FLEETS.items()}
    forms = [row for name, fleet in FLEETS.items() for row in _forms(name, fleet, regimes[name])]
    write_csv(folder / "closed-forms.csv", forms)
    _picture(rows, forms, folder / "scaling-limits")
    return [*_gamma_claims(regimes), *_lambda_claims(regimes), *_bound_claims(regimes)]


def _gammas(clients: tuple[int, int], c: float) -> dict[str, Any]:
    return {
        "near": clients[0],
        "slow": clients[1],
        "c": c,
        "gamma_paper": gamma_paper(clients[0], c),
        "gamma_limit": gamma_limit(*clients, c),
        "exact_1000_tasks": exact_gamma(*clients, c, TASKS),
        "exact_20000_tasks": exact_gamma(*clients, c),
    }


def _forms(name: str, fleet: Fleet, values: Regime) -> list[dict[str, Any]]:
    return [
        {
            "fleet": name,
            "group": group,
            "printed": values.staleness_printed[at],
            "with_plus_one": values.staleness_paper[at],
            "bound_any_size": values.staleness_bound[at],
            "exact_inclusive": values.staleness_exact[at] + 1,
            "exact": values.staleness_exact[at],
            "queue_paper": values.queue_paper[at],
            "queue_limit": values.queue_limit[at],
            "queue_exact": values.queue_exact[at],
        }
        for at, group in enumerate(fleet.name)
    ]


def _gamma_claims(regimes: dict[str, Regime]) -> list[Claim]:
    claims = [
        claim(
            f"Gamma is close to 1, {name}, C = 1000",
            "1",
            plain(values.gamma_paper),
            holds=[near(values.gamma_paper, 1.0, 0.01)],
            rule="within 1%",
            note=f"the limit of the network's own near queue is {plain(values.gamma_limit)} of it; mean queues of the "
            f"paper {numbers(values.queue_paper)}, exact {numbers(values.queue_exact)}",
            short=f"Gamma is close to 1, {name}",
        )
        for name, values in regimes.items()
    ]
    for clients in CLUSTERS:
        c = 1.0 if clients == (1, 1) else 5.0
        papers, exact = gamma_paper(clients[0], c), exact_gamma(*clients, c)
        claims.append(
            claim(
                f"Gamma(c) is the limit of the scaled fast queue: {clients[0]} fast, {clients[1]} slow, c = {c:g}",
                plain(papers),
                plain(exact),
                holds=[near(exact, papers, 0.02)],
                rule="within 2% of the network with 20,000 tasks",
                note=f"the limit law gives {plain(gamma_limit(*clients, c))}: the paper leaves out in how many ways "
                "the slow clients share the rest, and counts one client too many",
                short=f"Gamma({c:g}) is the limit of the scaled queue, {clients[0]} fast and {clients[1]} slow",
            )
        )
    return claims


def _lambda_claims(regimes: dict[str, Regime]) -> list[Claim]:
    two, three = regimes.values()
    twice = 5 * 1.0 + 5 * 1.0
    return [
        _upper(
            "lambda of two clusters, as printed in the appendix with mu_s twice",
            twice,
            two,
            f"a slip; {_above(twice, two)}, nearer than the sum of the rates",
            "lambda of two clusters, with mu_s twice",
        ),
        _upper(
            "lambda of two clusters, n_f mu_f + n_s mu_s, as in the main text",
            two.throughput_paper,
            two,
            f"{_above(two.throughput_paper, two)}: clients sampled uniformly cannot all be busy always",
            "lambda of two clusters, main text",
        ),
        _upper(
            "lambda of three clusters, fast clients counted with P(X_f > 0)",
            three.throughput_paper,
            three,
            _above(three.throughput_paper, three),
            "lambda of three clusters",
        ),
    ]


def _upper(statement: str, paper: float, regime: Regime, note: str, short: str) -> Claim:
    exact, holds = regime.throughput_exact, [paper >= regime.throughput_exact]
    return claim(statement, plain(paper), plain(exact, 7), holds=holds, rule=UPPER, note=note, short=short)


def _above(rate: float, values: Regime) -> str:
    return f"{100 * (rate / values.throughput_exact - 1):+.1f}% from the throughput"


def _bound_claims(regimes: dict[str, Regime]) -> list[Claim]:
    claims = [_rounded(regimes["two clusters"])]
    for name, values in regimes.items():
        counted = values.staleness_exact + 1
        forms = {
            "closed forms as printed": (values.staleness_printed, "; in the paper approximations of bounds of a limit"),
            "the same with the +1 that the limit loses": (values.staleness_paper, ""),
        }
        for form, (bounds, remark) in forms.items():
            claims.append(
                claim(
                    f"{form} bound the delays, {name}",
                    numbers(bounds),
                    numbers(counted, 6),
                    holds=[bool(limit >= value) for limit, value in zip(bounds, counted, strict=True)],
                    rule="not below the exact value (inclusive count, as the bound counts)",
                    note=f"off by {_off(bounds, counted)}{remark}",
                    short=f"{'printed forms' if remark else 'the same with the +1'} bound the delays, {name}",
                    parts=STROKE.join(FLEETS[name].name),
                )
            )
    return claims


def _rounded(two: Regime) -> Claim:
    return claim(
        "the closed forms of two clusters come to about 5n and 195n",
        "50 / 1950",
        numbers(two.staleness_printed),
        holds=[near(value, paper, 0.05) for value, paper in zip(two.staleness_printed, (50.0, 1950.0), strict=True)],
        rule="within 5% each",
        note="5n and 195n set lambda / mu_i = n for every client",
        short="the forms of two clusters come to 5n and 195n",
        parts="fast / slow",
    )


def _off(bounds: Any, counted: Any) -> str:
    return ", ".join(f"{100 * (limit / value - 1):+.1f}%" for limit, value in zip(bounds, counted, strict=True))


def _picture(gammas: list[dict[str, Any]], forms: list[dict[str, Any]], path: Path) -> None:
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.8, 4.4), layout="constrained")
    for colour, clients in zip(COLOURS, CLUSTERS, strict=False):
        rows = [row for row in gammas if (row["near"], row["slow"]) == clients]
        c, said = [row["c"] for row in rows], f"{clients[0]} fast, {clients[1]} slow"
        left.plot(c, [row["gamma_paper"] for row in rows], color=colour, ls="--", label=f"{said}: paper's Gamma")
        left.plot(c, [row["gamma_limit"] for row in rows], color=colour, label=f"{said}: limit law")
        left.plot(c, [row["exact_1000_tasks"] for row in rows], ".", color=colour, label=f"{said}: network, C = 1000")
    left.set(xscale="log", xlabel="c = (C + 1)(theta_s / theta_f - 1)", ylabel="scaled mean queue of a fast client")
    left.legend(frameon=False, fontsize=8)
    place = np.arange(len(forms))
    for shift, (key, mark, said) in enumerate(
        (("printed", "o", "closed form as printed"), ("with_plus_one", "s", "with the +1 that the limit loses"))
    ):
        share = [row[key] / row["exact_inclusive"] for row in forms]
        right.plot(place + 0.16 * (shift - 0.5), share, mark, color=COLOURS[shift], label=said)
    right.axhline(1, color="grey", lw=0.8)
    right.set_xticks(place, [f"{row['group']}\n{row['fleet']}" for row in forms], fontsize=7)
    right.set_xlim(-0.5, len(forms) - 0.5)
    right.set_ylabel("form over exact delay, inclusive (below 1: no bound)")
    right.legend(frameon=False, fontsize=8, loc="center left")
    save(figure, path)


EXPERIMENT = Experiment(
    "scaling-limits",
    "Gamma and the scaling limits beside the exact law",
    "scaling regime of section 4, and the appendices on two and three clusters",
    run,
)
