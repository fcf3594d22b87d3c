"""Training on the virtual clock: what the tasks of a Trace were worth."""
