"""Compute many models of one architecture as one, by kernels for stacked models."""
