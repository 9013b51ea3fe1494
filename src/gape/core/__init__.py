"""Shared vocabulary: array types, errors, protocols, and the definition of near copies."""
