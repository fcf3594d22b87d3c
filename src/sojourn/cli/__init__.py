"""The command line: one file per verb. Slow imports happen inside the functions."""
