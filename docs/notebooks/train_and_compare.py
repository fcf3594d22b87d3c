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
# # Train and compare with a model of your own
#
# A fleet of fast and slow clients learns a task of your own: two interleaved half circles, with a
# small network. First by one plan, then by three policies side by side. It takes half a minute.

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

import sojourn as sj

# %% [markdown]
# ## Data
#
# Each client holds an arc of the two half circles, so no client sees the whole problem. `owner`
# says which client an example belongs to. The slow clients, 20 to 29, hold one
# end of each half circle.

# %%
fleet = sj.Fleet.of(fast=(20, 8.0), slow=(10, 1.0))  # name=(clients, tasks per second)
rng = np.random.default_rng(0)
angle = np.sort(rng.uniform(0, np.pi, (2, 900)), axis=1)
upper = np.stack([np.cos(angle[0]), np.sin(angle[0])], axis=1)
lower = np.stack([1 - np.cos(angle[1]), 0.5 - np.sin(angle[1])], axis=1)
x = (np.concatenate([upper, lower]) + 0.1 * rng.standard_normal((1800, 2))).astype(np.float32)
y = np.repeat([0, 1], 900)
owner = np.tile(np.arange(900) * fleet.clients // 900, 2)
moons = sj.Dataset.of((x, y), owner=owner, name="two moons")

plt.figure(figsize=(5, 3))
plt.scatter(*x.T, c=owner, s=4, cmap="viridis")
plt.colorbar(label="client")
plt.show()

# %% [markdown]
# ## Model


# %%
class Net(nn.Module):
    """Two hidden layers."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.layers(x)


# %% [markdown]
# ## A plan and a run
#
# The plan needs no data: it follows from the fleet and the time. It leaves the step size open.
# Here it is a guess; `sj.tune` would find it by short runs, and the comparison below tries
# several.

# %%
advice = sj.make_plan(fleet, time="4s")
for row in advice.rows[:4]:
    print(f"{row.policy.name}: {row.updates:,.0f} updates, {row.idle:.0f} clients idle")

# %%
world = {"model": Net, "data": moons, "partition": "natural", "batch_size": 16, "time": "4s"}
run = sj.train(fleet, advice, step_size=0.3, progress=False, **world)
print(f"{run.last['received']:.0f} updates, test accuracy {run.last['accuracy']:.3f}")
run.plot()
plt.show()

# %% [markdown]
# The trained weights are an ordinary state dict. This draws where the network says which class.

# %%
net = Net()
net.load_state_dict(run.state_dict())
grid = np.stack(np.meshgrid(np.linspace(-1.5, 2.5, 80), np.linspace(-1, 1.5, 60)), axis=-1)
with torch.no_grad():
    chance = net(torch.tensor(grid.reshape(-1, 2), dtype=torch.float32)).softmax(1)[:, 1]
plt.figure(figsize=(5, 3))
plt.contourf(*np.moveaxis(grid, -1, 0), chance.numpy().reshape(60, 80), levels=20, cmap="coolwarm")
plt.scatter(*x[::5].T, c=y[::5], s=4, cmap="coolwarm", edgecolors="white", linewidths=0.2)
plt.show()

# %% [markdown]
# ## A comparison
#
# Three policies: tasks drawn blindly (AsyncSGD), nobody waits, and nobody waits with the plan's
# correction, by which updates of slow clients count more. All get the same first model, batches,
# service times and schedule, and each is tuned on the same grid.

# %%
both = sj.compare(
    fleet,
    {
        "AsyncSGD": "asyncsgd",
        "nobody waits": sj.make_plan(fleet, time="4s", correction=0),
        "and corrected": advice,
    },
    step_sizes=[0.2, 0.4],
    tuning={"seeds": 1, "extensions": 1},
    schedule="linear(end=budget)",
    seeds=3,
    jobs=2,
    **world,
)
for row in both.table:
    if row["axis"] == "time":
        print(f"{row['algorithm']}: test accuracy {row['accuracy']:.3f}, step size {row['step_size']:g}")

# %%
both.plot()
plt.show()

# %% [markdown]
# With several times as many updates, "nobody waits" alone is hardly better than AsyncSGD, or worse:
# with three seeds that depends on how the processor rounds. Nine updates of ten come from fast
# clients, and those know nothing of one end of each half circle. The correction brings the slow
# clients back, and then the many updates pay. Where data is dealt at random, the correction is not
# needed: see the guide "Choosing a policy". The shaded intervals in the picture say how few three
# seeds are.
