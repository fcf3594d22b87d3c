"""What the tasks of a Trace were worth to an algorithm."""
