"""Many runs, here or on a cluster, and comparisons of algorithms made of them."""
