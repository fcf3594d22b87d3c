"""What is learnt from, and who holds it: datasets, problems with known constants, partitions. NumPy arrays out."""
