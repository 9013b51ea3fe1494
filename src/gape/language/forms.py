"""Bodies of requests that upload a file."""

import secrets
from collections.abc import Mapping


def as_form(fields: Mapping[str, str], name: str, file: tuple[str, str, bytes]) -> tuple[bytes, str]:
    """Return a form with one file (its name, content type and content) as a body, and the content type of the body."""
    mark, (filename, kind, content) = secrets.token_hex(16), file
    lines = [
        f'--{mark}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{text}\r\n' for key, text in fields.items()
    ]
    lines.append(f'--{mark}\r\nContent-Disposition: form-data; name="{name}"; filename="{filename}"\r\n')
    form = (
        "".join([*lines, f"Content-Type: {kind}\r\n\r\n"]).encode(errors="replace")
        + content
        + f"\r\n--{mark}--\r\n".encode()
    )
    return form, f"multipart/form-data; boundary={mark}"
