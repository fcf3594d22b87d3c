"""pfl-research: federated averaging over random cohorts with one local step per client, without evaluation."""

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.internal.platform.generic_platform import GenericPlatform
from pfl.metrics import Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn
from train_plain import BATCH, CLIENTS, HELD, RATE, beside, cnn, examples

COHORT = 100


class Net(nn.Module):
    """The network in the form that pfl needs."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = cnn()

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """What is minimised."""
        return nn.functional.cross_entropy(self.inner(x), y)

    def metrics(self, x: Tensor, y: Tensor) -> dict:
        """What pfl evaluates in its very first round, which is not timed."""
        return {"loss": Weighted(self.loss(x, y).item() * len(x), len(x))}


def main() -> None:
    torch.set_num_threads(1)
    GenericPlatform.consume_metrics = lambda *_, **__: None  # it prints every round
    x, y = examples()
    data = {str(i): (x[i * HELD : (i + 1) * HELD], y[i * HELD : (i + 1) * HELD]) for i in range(CLIENTS)}
    sampler = get_user_sampler("minimize_reuse", list(data))
    users = FederatedDataset(lambda user: Dataset(data[user], user_id=user), sampler)
    net = Net()
    model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))
    backend = SimulatedBackend(users, users)
    local = NNTrainHyperParams(
        local_num_epochs=None, local_num_steps=1, local_learning_rate=RATE, local_batch_size=BATCH
    )
    algorithm, done = FederatedAveraging(), 0

    def advance(updates: int) -> None:
        nonlocal done
        done += updates // COHORT
        params = NNAlgorithmParams(
            central_num_iterations=done, evaluation_frequency=10**9, train_cohort_size=COHORT, val_cohort_size=None
        )
        algorithm.run(params, backend, model, local)  # continues where it stopped

    beside("pfl-research, FedAvg, cohorts of 100", "pfl", advance, rounds=10, updates=COHORT)
    pairs = zip(cnn().parameters(), net.parameters(), strict=True)
    assert not any(torch.equal(first, last) for first, last in pairs), "the clients have not trained"


if __name__ == "__main__":
    main()
