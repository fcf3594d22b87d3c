"""A training run in its folder."""
