"""Whom to sample, with what step, how many tasks in flight."""
