"""Image datasets from their official files, which are found in a folder or downloaded, and decoded once."""
