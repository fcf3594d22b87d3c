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
# # Watch a live run
#
# A server writes everything that happens into its folder. A notebook can attach to that folder
# while the run goes on. It reads, takes no lock and writes nothing, so the run does not notice.
# Here a small federation of real processes runs on this machine for a few seconds.

# %%
import signal
import subprocess
import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt

import sojourn.live

# %% [markdown]
# ## A run in the background
#
# Ten clients in two processes; they are as fast as the fleet says. In real life this is
# `sojourn live server` on some machine, started long ago.

# %%
Path("fleet.csv").write_text("name,count,rate\nfast,5,20\nslow,5,4\n")
words = "live local fleet.csv --time 1h --cap 1 --partition classes(k=2) --evaluate-every 20 --out live"
server = subprocess.Popen([sys.executable, "-m", "sojourn", *words.split()], stderr=subprocess.DEVNULL)
while not Path("live/metrics.csv").exists() or sojourn.live.attach("live").updates < 200:
    assert server.poll() is None, "the server has ended"
    time.sleep(0.2)

# %% [markdown]
# ## Attach
#
# The object shows the run as of this moment; `refresh` looks again.

# %%
seen = sojourn.live.attach("live")
print(f"{seen.state}: {len(seen.present)} clients, {len(seen.in_flight)} tasks in flight, faults {seen.faults}")

# %% [markdown]
# The evaluations are a pandas DataFrame.

# %%
print(seen.metrics[["received", "time", "accuracy", "test_loss", "staleness"]].tail(3).round(3).to_string())

# %% [markdown]
# So are the clients: who is there, what became of their tasks, and how stale their updates are.
# Those of slow clients are much older when they arrive.

# %%
print(seen.clients[["name", "present", "applied", "in_flight", "lost", "staleness"]].round(1).to_string())

# %% [markdown]
# ## Watch
#
# `watch` looks again every few seconds until the run ends, or for as long as it is told to. In
# Jupyter it draws the picture anew each time.

# %%
seen.watch(every=1, seconds=5, show=lambda run: print(f"{run.updates >= 200=}, {run.state}"))
seen.plot()
plt.show()

# %% [markdown]
# The trace so far is a Trace like any other. It says how long each client takes; `sojourn.fit`
# would make a fleet of it.

# %%
trace = seen.trace
fast = trace.client < 5
print(f"fast clients did {trace.applied[fast].sum() / trace.applied.sum():.0%} of the updates")

# %% [markdown]
# ## Stop
#
# Ctrl-C stops a server, here as a signal. What is in the folder can still be read, and the run
# could be resumed.

# %%
server.send_signal(signal.SIGINT)
server.wait(60)
print(f"the run is {seen.refresh().state}")
