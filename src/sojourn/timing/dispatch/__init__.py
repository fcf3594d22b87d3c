"""Dispatchers: one file each. Who gets the next task, with which options, on which fleets and plans."""
