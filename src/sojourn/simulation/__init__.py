"""Simulation of the network: who serves when. Knows nothing of models."""
