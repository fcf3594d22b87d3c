"""Scripts of others, with their licences: uPlot 1.6.32 (MIT), as published on npm."""
