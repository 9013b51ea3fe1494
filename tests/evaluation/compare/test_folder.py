"""The folder of a comparison: marked as what it is, added to, and refused where it is another one."""

import csv
import json
import math
from contextlib import nullcontext
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from evaluation.compare.grids import (
    GRID,
    METHODS,
    PLAN,
    STUDY,
    Broken,
    CorpusBuilder,
    Words,
    cells,
    private_points,
    run_grid,
    subsampling,
)
from gape.core.errors import InputError, RunError
from gape.evaluation.compare import (
    Comparison,
    ComparisonProgress,
    Grid,
    Method,
    Parts,
    Study,
    compare,
)
from gape.voting.electorate import LocalElectorate
from made_up import leaks, public_texts

pytestmark = pytest.mark.usefixtures("without_matplotlib")


class TestFolder:
    def test_everything_says_that_it_is_not_private(self, whole: tuple[Path, Comparison]) -> None:
        folder = whole[0]
        assert folder.stat().st_mode & 0o777 == 0o700
        names = {"README.md", "settings.toml", "table.md", "results.csv", "results.parquet"}
        names |= {f"{name}.{kind}" for name in ("figure", "further", "rounds") for kind in ("png", "svg")}
        assert {path.name for path in folder.iterdir()} == {*names, "cells"}
        for name in ("README.md", "settings.toml", "table.md"):
            assert "NOT differentially private" in (folder / name).read_text()
        for cell in cells(folder).values():
            assert cell["differentially_private"] is False
        with (folder / "results.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert {row["differentially_private"] for row in rows} == {"False"}
        table = pq.read_table(folder / "results.parquet")
        assert not any(table["differentially_private"].to_pylist())
        assert table.num_rows == len(rows) == 12 * 3 * 2 + 2
        assert leaks(folder) == []

    def test_a_finished_grid_runs_nothing(self, whole: tuple[Path, Comparison]) -> None:
        before = {path: path.stat().st_mtime_ns for path in (whole[0] / "cells").glob("*.json")}
        again = run_grid(whole[0], build=Broken(InputError("nothing is to be built")))
        assert again == whole[1]
        assert {path: path.stat().st_mtime_ns for path in (whole[0] / "cells").glob("*.json")} == before

    def test_a_larger_grid_adds_to_what_is_there(self, whole: tuple[Path, Comparison], tmp_path: Path) -> None:
        folder = tmp_path / "out"
        run_grid(folder, Grid(METHODS[:1], (math.inf,), (1,)))
        kept = {path: path.stat().st_mtime_ns for path in (folder / "cells").glob("*.json")}
        run_grid(folder, Grid(METHODS[1:], (1.0,), (1,)))
        more = run_grid(folder)
        assert {path: path.stat().st_mtime_ns for path in kept} == kept
        assert cells(folder) == cells(whole[0])
        assert (more.methods, more.epsilons, more.seeds) == (whole[1].methods, whole[1].epsilons, whole[1].seeds)
        assert (folder / "table.md").read_text() == (whole[0] / "table.md").read_text()
        settings = (folder / "settings.toml").read_text()
        assert 'methods = ["gape", "augpe", "subsamplepe"]' in settings
        assert "seeds = [1, 0]" in settings

    def test_another_study_is_refused(self, whole: tuple[Path, Comparison]) -> None:
        other = Study(PLAN, scored=40, k=4)
        with pytest.raises(RunError, match="was started with k 3, not 4, and its cells are not comparable"):
            run_grid(whole[0], study=other)
        with pytest.raises(RunError, match="was started with held_out"):
            run_grid(whole[0], study=Study(PLAN, held_out=0.3, scored=40))
        with pytest.raises(RunError, match="was started with method augpe '<function ranking>'"):
            run_grid(whole[0], Grid((Method("augpe", subsampling),), (1.0,), (0,)))
        points = private_points()[:-1]
        parts = nullcontext(Parts(points, Words(), CorpusBuilder(tuple(public_texts()))))
        with pytest.raises(RunError, match="compares methods on other data"):
            compare(whole[0], GRID, STUDY, parts, LocalElectorate(points).fingerprint)

    def test_another_model_of_the_same_name_is_refused(self, tmp_path: Path) -> None:
        points, folder = private_points(), tmp_path / "out"

        def run(seeds: tuple[int, ...], **made_by: str) -> Comparison:
            parts = Parts(points, Words(), CorpusBuilder(tuple(public_texts())), made_by=made_by)
            grid = Grid(METHODS[1:2], (math.inf,), seeds)
            return compare(folder, grid, STUDY, nullcontext(parts), LocalElectorate(points).fingerprint)

        run((0,), model="weights 1", embedder="words")
        before = cells(folder)
        with pytest.raises(RunError, match="was made by the model 'weights 1', not 'weights 2', and is not comparable"):
            run((0, 1), model="weights 2", embedder="words")
        assert cells(folder) == before
        run((0,), model="weights 2", embedder="words")  # nothing is missing, so nothing is loaded or run
        for path in (folder / "cells").glob("*--seed-0.json"):  # as if an older version had made them
            kept = json.loads(path.read_text())
            path.write_text(json.dumps({name: value for name, value in kept.items() if name != "made_by"}))
        run((0, 1), model="weights 2", embedder="words")
        assert cells(folder)["augpe--eps-inf--seed-1"]["made_by"] == {"model": "weights 2", "embedder": "words"}

    def test_a_foreign_folder_is_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.txt").write_text("")
        with pytest.raises(RunError, match="is not the folder of a comparison"):
            run_grid(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]

    def test_one_that_was_killed_before_its_settings_is_taken(self, tmp_path: Path) -> None:
        (tmp_path / "out" / "cells").mkdir(parents=True)
        (tmp_path / "out" / ".settings.toml.77.tmp").write_text("[gr")
        study = Study(PLAN, scored=40, described={"the weather": 'a "fine" day'})
        run_grid(tmp_path / "out", Grid(METHODS[:1], (math.inf,), (0,)), study)
        assert not list(tmp_path.rglob("*.tmp"))
        with pytest.raises(RunError, match="was started with the weather"):
            run_grid(tmp_path / "out")

    def test_two_processes_cannot_use_one_folder(self, tmp_path: Path) -> None:
        def again(now: ComparisonProgress) -> None:
            with pytest.raises(RunError, match="in use by another process"):
                run_grid(tmp_path / "out")
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_grid(tmp_path / "out", progress=again)

    def test_a_damaged_cell_is_named(self, tmp_path: Path) -> None:
        grid = Grid(METHODS[:1], (math.inf,), (0,))
        run_grid(tmp_path / "out", grid)
        (tmp_path / "out" / "cells" / "gape--eps-inf--seed-0.json").write_text('{"version": 1}\n')
        with pytest.raises(RunError, match=r"gape--eps-inf--seed-0\.json is not a cell of a comparison; remove it"):
            run_grid(tmp_path / "out", grid)
