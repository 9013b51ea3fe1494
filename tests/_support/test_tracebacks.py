"""Where an error was raised, and nothing else of it."""

import json
from pathlib import Path

import pytest

from gape._support.tracebacks import error_location


def test_the_innermost_frame_is_named_without_its_folder_or_the_message() -> None:
    def fail() -> None:
        raise ValueError("a private text")

    line = fail.__code__.co_firstlineno + 1
    with pytest.raises(ValueError, match="a private text") as caught:
        fail()
    assert error_location(caught.value) == f"{Path(__file__).name} line {line}"


def test_the_frame_may_lie_in_another_library() -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads("{")
    assert error_location(caught.value).startswith("decoder.py line ")


def test_an_error_that_was_not_raised_has_no_location() -> None:
    assert error_location(ValueError("a private text")) == "an unknown file"
