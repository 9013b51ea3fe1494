"""Differentially private synthetic data by Private Evolution."""

__version__ = "0.1.0.dev0"
