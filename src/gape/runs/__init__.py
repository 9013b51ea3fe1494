"""A run from its settings to its release: resolved, assembled, resumable, exported."""
