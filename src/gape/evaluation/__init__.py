"""How good synthetic data is: scores of a run, methods side by side, diagnostics of a generator."""
