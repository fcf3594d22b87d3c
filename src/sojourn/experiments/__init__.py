"""Many training runs, on this machine or on a cluster, and the comparisons of algorithms made from them."""
