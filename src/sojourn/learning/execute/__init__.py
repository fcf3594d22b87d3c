"""Computing the local work of tasks: one by one, in waves, on a GPU."""
