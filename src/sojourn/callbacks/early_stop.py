"""Early stop: end a run at a target, or when it no longer gets better."""

from collections.abc import Sequence
from math import inf

from sojourn.callbacks.callback import Callback, Model, Row, RunFacts
from sojourn.errors import InvalidInput
from sojourn.text import nearest

UP, DOWN = "up", "down"
RISES = ("accuracy", "client_worst", "client_10", "client_50", "client_90", "token_accuracy", "label_accuracy")
FALLS = ("train_loss", "test_loss", "mae", "rmse", "perplexity")


class EarlyStop(Callback):
    """Ends a run when a metric reaches `target`, or when it has not improved in `patience` evaluations.

    `metric` is a column of metrics.csv. `direction` is `up` if more is better and `down` if less is; for the package's
    own metrics it is known. An improvement is one by more than `least`.

    >>> stop = EarlyStop("accuracy", 0.9)
    >>> stop.evaluated({"received": 40, "accuracy": 0.91}, dict)
    'accuracy 0.91 has reached the target, 0.9, after 40 updates'
    """

    name = "early-stop"

    def __init__(
        self,
        metric: str,
        target: float | None = None,
        patience: int | None = None,
        direction: str | None = None,
        least: float = 0.0,
    ) -> None:
        if target is None and patience is None:
            raise InvalidInput(
                "callback early-stop needs a target or a patience, got neither; write early-stop(accuracy>=0.9) or "
                "early-stop(metric=test_loss, patience=5)"
            )
        if patience is not None and patience < 1:
            raise InvalidInput(f"callback early-stop: patience must be at least 1, got {patience}")
        if not least >= 0:
            raise InvalidInput(f"callback early-stop: least must be at least 0, got {least}")
        if target is not None and not -inf < target < inf:
            raise InvalidInput(f"callback early-stop: target must be finite, got {target}")
        self.metric, self.target, self.patience, self.least = metric, target, patience, least
        self.direction = _direction(metric, direction)
        self._best, self._since = -inf, 0

    def check(self, columns: Sequence[str]) -> None:
        """Refuse a metric that the run does not have."""
        if self.metric not in columns:
            hint = nearest(self.metric, columns) or f"; it may be {', '.join(columns)}"
            raise InvalidInput(f"callback early-stop: the run has no metric '{self.metric}'{hint}")

    def begin(self, run: RunFacts) -> str | None:
        """Look at the evaluations before: the run may have reached its target just before it was killed."""
        self._best, self._since = -inf, 0
        found = [self._look(row) for row in run.rows]
        return next((reason for reason in found if reason is not None), None)

    def evaluated(self, row: Row, model: Model) -> str | None:
        """End the run if it is time."""
        return self._look(row)

    def _look(self, row: Row) -> str | None:
        value, after = float(row[self.metric]), f"after {int(row['received']):,} updates"
        sign = 1.0 if self.direction == UP else -1.0
        if self.target is not None and sign * value >= sign * self.target:
            return f"{self.metric} {value:.4g} has reached the target, {self.target:g}, {after}"
        if sign * value > self._best + (self.least if self._best > -inf else 0.0):
            self._best, self._since = sign * value, 0
            return None
        self._since += 1
        if self.patience is None or self._since < self.patience:
            return None
        return f"{self.metric} has not improved on {sign * self._best:.4g} in {self._since} evaluations, {after}"


def _direction(metric: str, given: str | None) -> str:
    if given is not None and given not in (UP, DOWN):
        raise InvalidInput(f"callback early-stop: direction must be up or down, got '{given}'")
    known = UP if metric in RISES else DOWN if metric in FALLS else None
    if given is None and known is None:
        raise InvalidInput(
            f"callback early-stop needs a direction for the metric '{metric}', got none; write direction=up if more is "
            "better, or direction=down"
        )
    return given or str(known)
