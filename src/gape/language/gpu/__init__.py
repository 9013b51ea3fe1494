"""Decoding on a GPU: slots that are filled as they become free, and the kernels under them."""
