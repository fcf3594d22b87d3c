"""Queuing dynamics of asynchronous Federated Learning (Leconte et al., 2024), made again claim by claim.

Every figure and number that queues and bounds decide, and both trainings, set beside what the paper prints. Found by
`sojourn reproduce` where it is installed; `python -m queuing_dynamics` needs no more than the two packages on the path.
"""
