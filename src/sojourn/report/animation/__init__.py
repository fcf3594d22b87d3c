"""Traces that move: one SVG file that needs no script, so that it can stand in a README.

scene      where every task is at every moment       film       looks over time, as CSS keyframes
panel      one trace, drawn                          animate    the file, with one panel or two
"""
