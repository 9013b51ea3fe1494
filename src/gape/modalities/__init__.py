"""Kinds of records: texts, rows of a table, vectors, or a kind that an installed package defines.

Errors, descriptions and reprs made here never contain the content of a cell: rows are named by their number, cells by
their type, and columns, which are metadata, by their names. Reading executes nothing: no format here holds code.
"""

from gape.modalities.base import Modality, Rehearsal
from gape.modalities.images import Images, load_images
from gape.modalities.mixed import Mixed
from gape.modalities.records import Columns, Records, contents_of, keys
from gape.modalities.registry import is_part, kind_named, known_kinds, modality, modality_of, register, usual_modality
from gape.modalities.rows import Rows, Schema, load_rows
from gape.modalities.text import Text, load_texts
from gape.modalities.vectors import Vectors

__all__ = [
    "Columns",
    "Images",
    "Mixed",
    "Modality",
    "Records",
    "Rehearsal",
    "Rows",
    "Schema",
    "Text",
    "Vectors",
    "contents_of",
    "is_part",
    "keys",
    "kind_named",
    "known_kinds",
    "load_images",
    "load_rows",
    "load_texts",
    "modality",
    "modality_of",
    "register",
    "usual_modality",
]
