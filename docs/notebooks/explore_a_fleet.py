# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: "1.3"
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A fleet, looked at from all sides
#
# How stale are updates, how fast do they come, who waits? This notebook answers these questions
# for one fleet: by theory, by simulation, and in pictures. Nothing is trained. It takes a few
# seconds.

# %%
import matplotlib.pyplot as plt
import numpy as np

import sojourn as sj

fleet = sj.Fleet.of(fast=(90, 8.0), slow=(10, 1.0))  # name=(clients, tasks per second)
fleet

# %% [markdown]
# ## Tasks drawn blindly
#
# The server keeps 100 tasks in flight. Whenever an update arrives it draws the next client at
# random, busy or not. This is a closed queueing network, and it can be solved exactly.

# %%
plan = sj.Plan.uniform(fleet, 100)
exact = sj.analyze(fleet, plan)
exact

# %% [markdown]
# A slow client has about nine tasks in its queue. A fast one is idle most of the time.
# `throughput` is the number of updates per second; if all 100 clients worked all the time it would
# be 730.

# %%
print(f"{exact.throughput:.1f} updates per second of {float(fleet.count @ fleet.rate):.0f} that are possible")

# %% [markdown]
# ## Theory against simulation
#
# A simulation knows nothing of the formulas. It sends tasks, lets them queue, and counts.
# `measure` gives means with standard errors, so that the two can be compared.

# %%
seen = sj.measure(fleet, plan, 200_000, warmup=20_000, start="stationary", seed=1)
for group, name in enumerate(fleet.name):
    theory = exact.staleness()[group]
    mean, error = seen.staleness.value[group], seen.staleness.error[group]
    print(f"{name}: staleness {theory:.1f} in theory, {mean:.1f} ± {error:.1f} simulated")
    assert abs(mean - theory) < 5 * error

# %% [markdown]
# ## A cap: nobody waits
#
# Now a client may hold at most `cap` tasks, and the server draws among those with room. With a cap
# of 1 nobody waits. This network can be solved exactly too, for any law of service.

# %%
from sojourn.timing.exact.capped import capped_network  # noqa: E402

caps = [1, 2, 3, 5, 10, None]
solved = [capped_network(fleet, weights=[1.0, 1.0], concurrency=100, cap=cap) for cap in caps]
for cap, one in zip(caps, solved, strict=True):
    stale = ", ".join(f"{name} {value:.0f}" for name, value in zip(fleet.name, one.staleness, strict=True))
    print(f"cap {cap or 'none':>4}: {one.throughput:5.1f} updates per second, staleness {stale}")

# %% [markdown]
# The mean staleness over all updates is 99 in each row: one less than the tasks in flight,
# whatever one does. A cap does not make updates fresher. It makes them come eight times as often.

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
names = [str(cap or "none") for cap in caps]
left.bar(names, [one.throughput for one in solved], color="tab:blue")
left.set(xlabel="most tasks per client", ylabel="updates per second")
for group, name in enumerate(fleet.name):
    right.plot(names, [one.staleness[group] for one in solved], marker="o", label=name)
right.set(xlabel="most tasks per client", ylabel="mean staleness", yscale="log")
right.legend()
plt.show()

# %% [markdown]
# ## Staleness, task by task
#
# Means hide the spread. A `Trace` has one row per task, and every question about a single task can
# be asked of it. Here is the staleness of all tasks with a cap of 1 and without one.

# %%
robust = sj.Plan.uniform(fleet, 100, cap=1)
figure, panels = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained", sharey=True)
for panel, (title, one) in zip(panels, {"drawn blindly": plan, "nobody waits": robust}.items(), strict=True):
    trace = sj.simulate(fleet, one, 50_000, start="stationary", seed=2)
    slow = fleet.group_of_client[trace.client[trace.applied]] == fleet.index("slow")
    bins = np.geomspace(1, 5000, 50)
    for name, mask in (("fast", ~slow), ("slow", slow)):
        staleness = trace.staleness[mask]
        panel.hist(staleness[staleness > 0], bins=bins, density=True, alpha=0.6, label=name)
    panel.set(title=title, xlabel="staleness (updates)", xscale="log", yscale="log")
panels[0].set(ylabel="share of tasks")
panels[0].legend()
plt.show()

# %% [markdown]
# ## Other service times
#
# The formulas for queues need exponential service. Real devices are more regular, or have rare
# long tasks. Under a cap of 1 the throughput does not change; where tasks queue it does.

# %%
from dataclasses import replace  # noqa: E402

for law in ("deterministic", "exponential", "lognormal(sigma=1.5)"):
    shaped = replace(fleet, law=(sj.Law.parse(law),) * fleet.groups)
    rates = []
    for capped in (False, True):
        policy = sj.Plan.uniform(shaped, 100, cap=1 if capped else None)
        rates.append(sj.measure(shaped, policy, 60_000, start="even", warmup=20_000, seed=3).throughput.value)
    print(f"{law:22} drawn blindly {rates[0]:6.1f}, nobody waits {rates[1]:6.1f} updates per second")

# %% [markdown]
# What all this means for training is in the second notebook, `train_and_compare.py`.
