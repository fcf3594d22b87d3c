"""The paper's planner: the least of a convergence bound."""
