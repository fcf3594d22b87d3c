"""Many models of one architecture computed as one, by kernels that know of the stack."""
