"""Who computes: one by one, in waves, on a GPU."""
