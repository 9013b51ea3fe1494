from pathlib import Path

import pytest

from report.runs import hostile_run, stopped, text_run, vector_run


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return text_run(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="session")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return text_run(tmp_path_factory.mktemp("labelled"), label="stars", labels=("low", "mid", "high"), user="who")


@pytest.fixture(scope="session")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return vector_run(tmp_path_factory.mktemp("vectors"))


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile_run(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="session")
def unfinished(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stopped(texts, tmp_path_factory.mktemp("unfinished") / "run", after=2)
