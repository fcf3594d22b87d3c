"""From observed durations to rates and laws: what `sojourn.fit` is made of."""
