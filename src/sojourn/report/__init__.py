"""Pictures of results, and pages that compare a paper with its reproduction."""
