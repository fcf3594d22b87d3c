"""Handwritten digits, trained by several organisations together."""
