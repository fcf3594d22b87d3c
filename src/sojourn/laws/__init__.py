"""Service laws: one file per law, and what a law of one's own needs.

`sojourn.laws.law` has `Law`, the noun; `sojourn.laws.kind` has `LawKind`, what a law must define, and `register`.
"""
