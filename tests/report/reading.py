"""What a report says, read back from its file."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any


def data_of(path: Path) -> dict[str, Any]:
    """The data of the script."""
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', path.read_text(), re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._silent += tag in {"script", "style"}

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in {"script", "style"}

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.words.append(data)


def words_of(path: Path) -> str:
    """All that a reader sees without the script, in one line."""
    reader = _Reader()
    reader.feed(path.read_text())
    return " ".join(" ".join(reader.words).split())


def elements_of(path: Path) -> list[tuple[str, dict[str, str | None]]]:
    """All elements with their attributes."""
    reader = _Reader()
    reader.feed(path.read_text())
    return reader.elements
