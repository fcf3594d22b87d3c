"""Image datasets from their official files: found in a folder, downloaded where a network allows, decoded once."""
