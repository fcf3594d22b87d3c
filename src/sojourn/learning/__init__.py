"""Learning: data, models, algorithms, and training along a Trace."""
