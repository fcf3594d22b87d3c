"""Whom to sample, how many tasks in flight, how large a step."""
