"""`gape schema`: a draft of the schema that tables and rows with texts need."""

from pathlib import Path
from typing import Annotated

import typer

from gape.cli.shared import errors_in_one_line, output
from gape.core.errors import InputError
from gape.modalities.drafting import draft_schema


@errors_in_one_line()
def schema(
    data: Annotated[str, typer.Argument(help="The private table: a .csv, .tsv, .jsonl or .parquet file, or a folder.")],
    out: Annotated[Path | None, typer.Option(help="File to write. Defaults to the terminal.")] = None,
) -> None:
    """Draft a schema from the names and the types of the columns.

    A schema is public, so the draft contains no value, bound or length of the data. What is marked "fill in from public
    knowledge" must be filled in before the schema can be used.
    """
    draft = draft_schema(data)
    if out is None:
        output().print(draft, markup=False, highlight=False, soft_wrap=True, end="")
        return
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(draft)
    except FileExistsError:
        raise InputError(f"{out} exists and nothing is overwritten; remove it or name another file") from None
    except OSError as error:
        raise InputError(f"{out} cannot be written ({error.strerror}); name another file") from None
    output().print(f"Wrote {out}. Fill in what it marks, then run `gape plan {data} --schema {out}`.", markup=False)
