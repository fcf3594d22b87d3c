"""When each task is dispatched, served and applied: exact analysis, simulation, fitting."""
