"""Service laws."""
