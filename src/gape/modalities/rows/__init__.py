"""Rows of a table: the schema of their columns, what writes them and where they are compared."""
