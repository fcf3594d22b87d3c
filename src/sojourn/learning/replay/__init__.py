"""Training along a Trace: its tasks applied to an algorithm."""
