"""The front door to training: you pass fleets, plans, models, data and algorithms as objects, and get results as
objects.

The command line offers the same functions, with files in place of objects. Inside, every object gets a text under which
the other modules find it (see `own_code`).
"""
