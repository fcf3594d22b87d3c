"""Models: functions from a Dataset to a module."""

from sojourn.learning.models.resnet import resnet18, resnet20
from sojourn.learning.models.small import cnn, logistic, mlp

__all__ = ["cnn", "logistic", "mlp", "resnet18", "resnet20"]
