"""Tools that know nothing of Private Evolution: files, memory, cores, distances."""
