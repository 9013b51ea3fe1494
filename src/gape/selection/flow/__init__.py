"""The local search over signed flows: its objective, the network simplex under it, and the swaps it tries."""
