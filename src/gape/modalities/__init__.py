"""Private texts and tables, read from wherever they lie.

Nothing in an error, a description or a `repr` made here is content of a cell: rows are named by their number, cells by
their type, and columns, which are metadata, by their names. Reading executes nothing: no format here holds code.
"""

from gape.modalities.records import Records, load_rows, load_texts
from gape.modalities.rows.schema import Schema

__all__ = ["Records", "Schema", "load_rows", "load_texts"]
