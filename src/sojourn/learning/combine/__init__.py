"""How a buffered method combines its updates: by their mean, or robustly against clients that lie."""
