"""Many runs, here or on a cluster, and comparisons of methods made of them."""
