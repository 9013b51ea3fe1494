"""The README of experiments/varied_text says what the stored starts say."""

from pathlib import Path

from experiments.varied_text import sampling

README = Path(sampling.__file__).with_name("README.md").read_text(encoding="utf-8")


def test_the_table_of_sampling_is_that_of_the_stored_starts() -> None:
    assert "\n".join(sampling.table()) in README
