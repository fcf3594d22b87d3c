"""The twin: a model of training that predicts the loss of a policy without training (docs/twin.md)."""

from sojourn.planning.twin.prediction import Predicted, predict

__all__ = ["Predicted", "predict"]
