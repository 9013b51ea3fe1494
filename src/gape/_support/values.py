"""Plain values of settings and schemas: reading TOML, conversion, and formatting for messages."""

import json
import tomllib
from difflib import get_close_matches
from numbers import Integral, Real
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

from gape.core.errors import InputError

_LARGEST_FILE = 2**20  # bytes of TOML
_LONGEST_SHOWN = 100  # characters of a value in a message


def toml_file(path: str | Path, what: str) -> dict[str, Any]:
    """Read a TOML file; `what` names its content in messages, such as "the settings"."""
    return parse_toml(toml_bytes(path, what), path, what)


def toml_bytes(path: str | Path, what: str) -> bytes:
    """Read the bytes of a TOML file of reasonable size, for `parse_toml`."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise InputError(f"{what} {path} cannot be read ({error.strerror}); check the path") from error
    if len(content) > _LARGEST_FILE:
        raise InputError(f"{what} {path} may have at most {_LARGEST_FILE} bytes and have more; shorten the file")
    return content


def parse_toml(content: bytes, path: str | Path, what: str) -> dict[str, Any]:
    """Parse the bytes of the TOML file at `path`."""
    try:
        return tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{what} {path} are not valid TOML ({str(error)[:200]}); fix the file at that line") from error
    except (ValueError, RecursionError) as error:  # numbers with thousands of digits, deeply nested lists
        if isinstance(error, InputError):
            raise
        raise InputError(f"{what} {path} are nested too deeply or contain huge numbers; simplify the file") from None


def nearest_name(name: object, known: list[str] | tuple[str, ...]) -> str:
    """Return the known name that is most similar to an unknown one."""
    return get_close_matches(str(name)[:_LONGEST_SHOWN], known, n=1, cutoff=0.0)[0]


def brief(value: object) -> str:
    """Return the repr of a value for a message, shortened if it is long."""
    try:
        shown = repr(value)
    except ValueError:  # a number with thousands of digits
        return "a huge number"
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}..."


def converted(value: Any, kind: Any) -> Any:
    """Return the value as the requested plain type. Numpy numbers become Python numbers."""
    for option in get_args(kind) if isinstance(kind, UnionType) else (kind,):
        if get_origin(option) is tuple and isinstance(value, list | tuple):
            return tuple(converted(item, get_args(option)[0]) for item in value)
        if type(value) is option and not (option is str and "\0" in value):  # not allowed in paths
            return value
        if type(value) is not bool and option is float and isinstance(value, Real):
            return float(value)
        if type(value) is not bool and option is int and isinstance(value, Integral):
            return int(value)
    raise TypeError


def kind_in_words(kind: Any) -> str:
    """Describe the type of a value for a message."""
    names = {str: "a text without NUL characters", int: "a whole number", float: "a number", bool: "true or false"}
    options = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    lists = {str: "a list of texts", float: "a list of numbers"}
    words = [lists[get_args(o)[0]] if get_origin(o) is tuple else names[o] for o in options if o is not type(None)]
    return " or ".join(words)


def as_toml(value: Any) -> str:
    """Write a value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # the one difference from a JSON string
    if isinstance(value, tuple):
        return f"[{', '.join(as_toml(item) for item in value)}]"
    return repr(value)
