"""The command line: one file a verb; heavy imports happen inside the functions."""
