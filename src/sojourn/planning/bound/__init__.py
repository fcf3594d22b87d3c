"""The paper's planner, which minimises a convergence bound."""
