"""A fleet from what a trace shows."""
