"""Planning: whom to sample, how many tasks to keep in flight, which step size to take."""
