"""A paper made again: its experiments, their claims with verdicts, the page of all of them; papers are installed apart.

claim       what a paper states beside ours      experiment   one figure, table or section
page        claims as tables                     reproduce    an experiment into its folder
paper       a paper, and those that are installed
"""
