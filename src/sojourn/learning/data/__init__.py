"""Data to learn from, and who holds it: datasets, problems with known constants, partitions, all as NumPy arrays."""
