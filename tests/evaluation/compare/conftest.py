from pathlib import Path

import pytest

from evaluation.compare.grids import run_grid
from gape.evaluation.compare import Comparison


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Comparison]:
    """The grid, run in this process without interruption."""
    folder = tmp_path_factory.mktemp("compare") / "whole"
    return folder, run_grid(folder)
