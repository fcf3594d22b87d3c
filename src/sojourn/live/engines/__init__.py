"""Engines: how tasks reach clients and updates come back; one folder or file per engine."""
