"""Service laws: one file per law, and what a law of your own needs.

`sojourn.laws.law` has the class `Law`, which users handle. `sojourn.laws.kind` has `LawKind`, which says what a law
must define, and `register`.
"""
