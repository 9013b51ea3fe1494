import pytest

from gape.cli.live import watching
from gape.runs.progress import Progress

FASTER = "Another engine is faster."


def shown(texts: int, asked: tuple[int, ...], capsys: pytest.CaptureFixture[str], faster: str = FASTER) -> list[str]:
    with watching(faster) as show:
        for number in asked:
            show(Progress("writing", 1, 2, number, texts, number, 10 * number, 0.0))
    return capsys.readouterr().err.splitlines()


class TestAdvice:
    def test_a_long_run_is_told_once_of_a_faster_engine(self, capsys: pytest.CaptureFixture[str]) -> None:
        _, note = shown(10**9, (1, 2, 16, 17, 18), capsys)
        assert note.startswith("note: ")
        assert note.endswith(f" left. {FASTER}")

    def test_not_before_the_time_can_be_judged(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert shown(10**9, (1, 15), capsys) == ["Round 1 of 2: writing"]

    def test_a_short_run_is_not(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert shown(100, (1, 16, 99, 100), capsys) == ["Round 1 of 2: writing"]

    def test_nor_where_no_other_engine_is_known(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert shown(10**9, (1, 16), capsys, faster="") == ["Round 1 of 2: writing"]
