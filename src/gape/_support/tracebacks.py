"""Report an unexpected error without its message or its traceback, either of which may quote private text."""

from pathlib import Path


def error_location(error: BaseException) -> str:
    """Return the file name and the line that raised the error, without the folders on the way there."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{Path(trace.tb_frame.f_code.co_filename).name} line {trace.tb_lineno}" if trace else "an unknown file"
