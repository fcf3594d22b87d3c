"""Logs of how long tasks took: any table with a device and times per task."""
