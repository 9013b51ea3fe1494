"""First runs to look at, on public data, so that their figures may show it."""
