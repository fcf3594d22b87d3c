"""The planner page: a fleet and a policy to play with, beside the plan that sojourn recommends."""
