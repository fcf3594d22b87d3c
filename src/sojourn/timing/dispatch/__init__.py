"""Dispatchers, one file each: who gets the next task, with which options, on which fleets and plans."""
