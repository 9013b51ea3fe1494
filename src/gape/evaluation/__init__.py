"""How good synthetic data is: scores of a run, comparisons of methods, diagnostics of a generator."""
