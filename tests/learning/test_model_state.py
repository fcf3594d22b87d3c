"""The tensors of a model by their names, without touching the module that others may be using."""

import torch
from torch import equal, nn

from sojourn.learning.execute.flat_model import FlatModel


class Net(nn.Module):
    """Tied, frozen and normalised layers, with a buffer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)
        self.last.weight = self.first.weight
        self.frozen = nn.Linear(4, 2).requires_grad_(False)
        self.register_buffer("seen", torch.arange(3))


def test_the_state_at_a_point_is_that_of_the_module_put_there_and_the_module_stays():
    torch.manual_seed(1)
    model = FlatModel(Net())
    params, stats = torch.randn(model.size), torch.rand(model.stats.numel())
    model.module.seen += 5  # as training would; it is reset before every task
    before = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
    found = model.state(params, stats)
    assert all(equal(tensor, before[name]) for name, tensor in model.module.state_dict().items())
    expected = model.at(params, stats).state_dict()
    assert found.keys() == expected.keys()
    assert all(equal(found[name], tensor) for name, tensor in expected.items())
    params += 1
    assert all(equal(found[name], tensor) for name, tensor in expected.items())  # they are copies


def test_a_slice_of_a_longer_vector_is_read_where_it_lies():
    model = FlatModel(nn.Linear(3, 2))
    long = torch.arange(20.0)
    found = model.state(long[5 : 5 + model.size], model.stats)
    assert found["weight"].flatten().tolist() == [5.0, 6.0, 7.0, 8.0, 9.0, 10.0]
    assert found["bias"].tolist() == [11.0, 12.0]
