"""Exact analysis of the network."""
