"""Measure the constants of a training problem, which `sojourn plan` needs."""
