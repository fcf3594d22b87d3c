"""Simulation of the network, task by task."""
