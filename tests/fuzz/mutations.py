"""Ways to spoil a file: by its bytes, and by what it holds. The generator passed in decides everything."""

import codecs
import json
import random
import struct
from collections.abc import Callable, Sequence
from typing import Any

MAGIC = (b"\0", b"\xff", b"\n", b"\r\n", b'"', b"'", b",", b";", b"{", b"[", b"\\", b"PAR1", b"\x7f\xff\xff\xff")
ODD_TEXTS = (
    "",
    " ",
    "\0",
    "\ufeff",
    "\u2028",
    "\ud83d",
    "=HYPERLINK(1)",
    "@SUM(A1)",
    "../../etc/passwd",
    "/dev/zero",
    "<script>alert(1)</script>",
    "`$(id)`",
    "%s%n{0}{__class__}",
    "---\nprivate: true\n---",
    "inf",
    "nan",
    "-1",
    "é" * 300,
    "a" * 70_000,
)
ODD_NUMBERS = (0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 10**30, 10**400, 0.1, -0.0, 1e308, 1e-320)


def spoil_bytes(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """Flip, cut, repeat, splice or overwrite, one to four times."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        content = rng.choice(_BY_BYTES)(content, others, rng)
    return content


def _flip(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 3, 16)) if changed else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    start = rng.choice((0, 0, rng.randrange(len(content) + 1)))
    return content[start : rng.randrange(len(content) + 1)]


def _remove(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    return content[:start] + content[start + rng.randrange(1, 40) :]


def _repeat(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    part = content[start : start + rng.randrange(1, 200)]
    return content[:start] + part * rng.choice((2, 3, 50, 1000)) + content[start:]


def _insert(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    return content[:start] + rng.choice(MAGIC) * rng.choice((1, 1, 2, 100)) + content[start:]


def _splice(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    other = rng.choice(others) if others else content
    return content[: rng.randrange(len(content) + 1)] + other[rng.randrange(len(other) + 1) :]


def _number(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """Write a number that lengths and offsets do not expect."""
    value = rng.choice((0, 1, 255, 2**15, 2**31 - 1, 2**31, 2**32 - 1, len(content), len(content) + 1))
    form = rng.choice(("<I", ">I", "<H", ">H"))
    written = struct.pack(form, value & (0xFFFF if form[1] == "H" else 0xFFFFFFFF))
    start = rng.randrange(max(1, len(content) - 3))
    if rng.random() < 0.3:
        start = max(0, len(content) - 8)  # where parquet has the length of its footer
    return content[:start] + written + content[start + len(written) :]


_BY_BYTES: tuple[Callable[[bytes, Sequence[bytes], random.Random], bytes], ...] = (
    _flip,
    _flip,
    _cut,
    _remove,
    _repeat,
    _insert,
    _splice,
    _number,
)


def odd_value(rng: random.Random, depth: int = 0) -> Any:
    """A value that nobody expects there."""
    kind = rng.randrange(8)
    if kind == 0 and depth < 3:
        return [odd_value(rng, depth + 1) for _ in range(rng.choice((0, 1, 3, 30)))]
    if kind == 1 and depth < 3:
        return {rng.choice(ODD_TEXTS): odd_value(rng, depth + 1) for _ in range(rng.choice((0, 1, 3)))}
    if kind in {2, 3}:
        return rng.choice(ODD_TEXTS)
    if kind in {4, 5}:
        return rng.choice(ODD_NUMBERS)
    return rng.choice((None, True, False, float("inf"), float("nan")))


def spoil_value(value: Any, rng: random.Random) -> Any:
    """Change one thing somewhere in a value of JSON: replace, remove, rename or add."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        changed = dict(value)
        way = rng.randrange(6)
        if way == 0:
            del changed[key]
        elif way == 1:
            changed[rng.choice(ODD_TEXTS)] = changed.pop(key)
        elif way == 2:
            changed[key + "x"] = odd_value(rng)
        else:
            changed[key] = spoil_value(value[key], rng)
        return changed
    if isinstance(value, list) and value and rng.random() < 0.7:
        place = rng.randrange(len(value))
        way = rng.randrange(4)
        if way == 0:
            return value[:place] + value[place + 1 :]
        if way == 1:
            return value + value
        return [*value[:place], spoil_value(value[place], rng), *value[place + 1 :]]
    return odd_value(rng)


def as_json(value: Any) -> str:
    """Write JSON as Python's own writer does, which also writes what JSON has no word for."""
    return json.dumps(value, ensure_ascii=True)


def as_toml(value: Any) -> str:
    """Write a value as TOML, as far as TOML has a word for it; for None it has none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(as_toml(each) for each in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{as_toml(key)} = {as_toml(each)}' for key, each in value.items())}}}"
    return repr(value)


def recode(text: str, rng: random.Random) -> bytes:
    """Encode a text in one of the ways that files are encoded, or in two of them."""
    ways: tuple[Callable[[str], bytes], ...] = (
        lambda t: t.encode("utf-8", "surrogatepass"),
        lambda t: codecs.BOM_UTF8 + t.encode("utf-8", "surrogatepass"),
        lambda t: t.encode("utf-16", "surrogatepass"),
        lambda t: codecs.BOM_UTF16_BE + t.encode("utf-16-be", "surrogatepass"),
        lambda t: t.encode("utf-32", "surrogatepass"),
        lambda t: t.encode("latin-1", "replace"),
        lambda t: t.encode("utf-7", "replace"),
    )
    if rng.random() < 0.7:
        return ways[0](text)
    if rng.random() < 0.7:
        return rng.choice(ways)(text)
    half = rng.randrange(len(text) + 1)
    return rng.choice(ways)(text[:half]) + rng.choice(ways)(text[half:])
