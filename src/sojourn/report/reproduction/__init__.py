"""Reproducing a paper: its experiments, their claims with verdicts, and the page that lists all of them.

Papers are packages of their own, which are installed separately.

claim       the paper's result and ours          experiment   one figure, table or section
page        claims as tables                     reproduce    runs an experiment into its folder
paper       a paper, and the papers installed
"""
