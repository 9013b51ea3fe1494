"""Read private texts from files or memory."""

from gape.core.errors import InputError
from gape.core.types import as_samples
from gape.modalities.records import Records, choose_columns, name_readers, open_table, record_text


def load_texts(source: object, text: str | None = None, label: str | None = None, user: str | None = None) -> Records:
    """Read private texts, with the label and the user of each if their columns are named.

    A source is a path or data in memory:

    - a .csv or .tsv file with a header, .jsonl or .ndjson with one object per line, .txt with one text per line, each
      also compressed as .gz, or .parquet;
    - a folder of .txt files with one text each, of parquet shards, or as written by `save_to_disk` of `datasets`;
    - a pandas or polars frame, a pyarrow table, a list of dicts, or a list, tuple, array or series of texts.

    `text` may be left out if a single column holds texts. Files are UTF-8, or UTF-16 with a byte order mark. Rows whose
    text is blank or missing are left out and counted. Labels and users become strings, and none may be missing, because
    the user of a record decides what is protected. Users are distinguished by `record_user`. Unpaired surrogates become
    U+FFFD.
    """
    table = open_table(source)
    chosen, readers = choose_columns(table, text, label, user), name_readers(label, user)
    columns: list[list[str]] = [[] for _ in chosen]
    dropped = 0
    for number, cells in enumerate(table.rows(chosen), start=1):
        where = f"{table.row} {number} of {table.source}"
        record = record_text(cells[0], where)
        if record is None:
            dropped += 1
            continue
        names = [read(cell, where, column) for read, cell, column in zip(readers, cells[1:], chosen[1:], strict=True)]
        for column, value in zip(columns, [record, *names], strict=True):
            column.append(value)
    if not columns[0]:
        found = f"only blank rows ({dropped})" if dropped else "only a header" if table.names else "no rows"
        raise InputError(f"{table.source} holds no text, {found}; add at least one record")
    texts, *others = (as_samples(column) for column in columns)
    labels = others.pop(0) if label is not None else None
    users = others.pop(0) if user is not None else None
    return Records(texts, labels, users, dropped, table.source)
