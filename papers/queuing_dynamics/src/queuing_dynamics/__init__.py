"""Queuing dynamics of asynchronous Federated Learning (Leconte et al., 2024), reproduced claim by claim.

Every figure and number from queues and bounds, and both trainings, are compared with what the paper prints. `sojourn
reproduce` finds this package if it is installed; `python -m queuing_dynamics` needs only the two packages on the path.
"""
