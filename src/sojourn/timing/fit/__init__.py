"""Fit a fleet to a trace or to a log of durations."""
