"""Cells side by side: killed and resumed, failing one by one, and sharing a model."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from evaluation.compare.grids import Broken, Dying, cells, private_points, run_grid
from gape.core.errors import InputError, RunError
from gape.evaluation.compare import (
    Comparison,
)
from gape.evaluation.compare.pool import _Dispatcher, _Worker
from gape.evaluation.compare.shared import SharedPoints
from gape.language.request import Request


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


class TestInterruption:
    @pytest.mark.usefixtures("without_matplotlib")
    def test_killed_it_goes_on_without_repeating_a_cell(self, whole: tuple[Path, Comparison], tmp_path: Path) -> None:
        folder = tmp_path / "killed"
        imports = "from pathlib import Path; from evaluation.compare.grids import run_grid"
        code = f"{imports}; run_grid(Path({str(folder)!r}), jobs=2)"
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        process = subprocess.Popen([sys.executable, "-c", code], env=environment, start_new_session=True)
        until = time.monotonic() + 60
        while len(list((folder / "cells").glob("*.json"))) < 4:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        while _group_lives(process.pid):  # workers end with their parent
            assert time.monotonic() < until
            time.sleep(0.01)
        kept = {path: path.stat().st_mtime_ns for path in (folder / "cells").glob("*.json")}
        assert 4 <= len(kept) < 14
        told: list[str] = []
        run_grid(folder, jobs=2, progress=lambda now: told.append(now.doing))
        assert {path: path.stat().st_mtime_ns for path in kept} == kept
        assert sum(doing.endswith("done") for doing in told) == 14 - len(kept)
        assert cells(folder) == cells(whole[0])
        assert (folder / "table.md").read_text() == (whole[0] / "table.md").read_text()
        assert not list(folder.rglob("*.tmp"))

    def test_what_goes_wrong_in_a_worker_is_said_here(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no such corpus"):
            run_grid(tmp_path / "a", jobs=2, build=Broken(InputError("no such corpus")))
        with pytest.raises(RuntimeError, match=r"failed with ValueError in grids\.py line \d+") as raised:
            run_grid(tmp_path / "b", jobs=2, build=Broken(ValueError("a private text")))
        assert "private text" not in str(raised.value)
        with pytest.raises(RunError, match=r"ended with code -9 .*use fewer jobs"):
            run_grid(tmp_path / "c", jobs=2, build=Dying(os.getpid()))

    def test_a_worker_that_cannot_begin_is_noticed(self, tmp_path: Path) -> None:
        """Its job, many texts, fits into no pipe; one who waits for it to be read would wait for ever."""
        script = tmp_path / "script.py"
        script.write_text(
            "from pathlib import Path\n"
            "from evaluation.compare.grids import CorpusBuilder, run_grid\n"
            "build = CorpusBuilder(tuple(f'text {i} ' * 50 for i in range(10_000)))\n"
            f"run_grid(Path({str(tmp_path / 'out')!r}), jobs=2, build=build)\n"  # in the workers too, which may not
        )
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        command = [sys.executable, str(script)]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert ended.returncode == 1
        assert "RunError: a worker process ended with code 1 in the cell" in ended.stderr
        assert "and printed the reason above; fix the cause and repeat the command" in ended.stderr

    @pytest.mark.parametrize(("workers", "shares"), [(1, [1]), (2, [1, 1]), (3, [2, 1]), (5, [3, 2]), (8, [4, 4])])
    def test_the_model_answers_half_of_the_workers_while_the_others_compute(
        self, workers: int, shares: list[int]
    ) -> None:
        pipes = [Pipe()[0] for _ in range(workers)]
        dispatcher = _Dispatcher([_Worker(cast(Any, None), pipe) for pipe in pipes], cast(Any, None), print, print)
        for pipe in pipes:
            dispatcher._requests.put((pipe, [Request("prompt")]))
        found = [list(dispatcher._next_batch() or ()) for _ in shares]
        assert [len(some) for some in found] == shares
        assert [pipe for some in found for pipe in some] == pipes

    def test_the_model_answers_second_tries_first_and_no_more_than_keep_it_busy(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("gape.evaluation.compare.pool._MOST_REQUESTS", 30)
        pipes = [Pipe()[0] for _ in range(10)]
        dispatcher = _Dispatcher([_Worker(cast(Any, None), pipe) for pipe in pipes], cast(Any, None), print, print)

        free = iter(pipes)

        def answered(*counts: int) -> list[int]:
            for count in counts:
                dispatcher._requests.put((next(free), [Request("prompt")] * count))
            return [len(requests) for requests in (dispatcher._next_batch() or {}).values()]

        assert answered(16, 16, 16) == [16, 16]  # enough of them
        assert answered(2, 16, 1) == [2, 1]
        assert answered(3) == [16, 16]  # more than an eighth waits for its turn
        assert answered() == [3]

    def test_shared_points_have_no_name(self) -> None:
        points = private_points()
        with closing(SharedPoints(points)) as shared:
            read = shared.read()
            assert np.array_equal(read, points)
            assert not read.flags.writeable
            assert not Path(f"/proc/self/fd/{shared._descriptor}").readlink().exists()
