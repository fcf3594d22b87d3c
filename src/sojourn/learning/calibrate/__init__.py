"""Measuring the constants of a training problem: what `sojourn plan` needs to know of a model, its data and clients."""
