"""Two small language models in one run: stored answers, resuming, the status and more texts."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import made_gguf
from gape.core.errors import InputError
from gape.runs.expand import expand
from gape.runs.folder.stored import SettingsFolder
from gape.runs.progress import Progress
from gape.runs.settings import Settings
from gape.runs.synthesize import resume, run_text
from small_model import FOLDER

TEXTS = [f"One day, {name} saw a {thing}." for name in ("Lily", "Tom", "Ben") for thing in ("dog", "bird", "red ball")]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("model")
    file = made_gguf.make(folder / "stories.gguf")
    values = {"epsilon": 8.0, "samples": 3, "rounds": 2, "words": 12, "initial": 6, "scales": (0.5,), "copies": 2}
    return Settings.of({**values, "generator": f"hf:{FOLDER}", "also": (f"embedded:{file}",)})


def test_a_stopped_run_resumes_with_both_and_says_who_wrote(settings: Settings, tmp_path: Path) -> None:
    class StoppedError(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.round == 1:
            raise StoppedError

    with pytest.raises(StoppedError):
        run_text(settings, tmp_path / "run", source=TEXTS, progress=stop)
    folder = SettingsFolder(tmp_path / "run")
    written = folder.status().answers
    made = resume(tmp_path / "run", source=TEXTS)
    assert len(made) == 3
    status = SettingsFolder(tmp_path / "run").status()
    assert status.answers > written > 0
    assert list(status.written) == [settings.generator, *(settings.also or ())]
    assert sum(status.written.values()) == 3
    start = pq.read_table(folder.layout.round(0).synthetic)["writer"].to_pylist()
    assert sorted(start) == [0, 0, 0, 1, 1, 1]
    assert len(expand(tmp_path / "run", 5)) == 5


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"also": ("openai:gpt",)}, "also must name other models of the kinds embedded, openvino, hf"),
        ({"also": ("embedded",)}, "name each once"),
        ({"also": ("hf:a", "hf:a")}, "name each once"),
        ({"also": ("hf:a",), "generator": "corpus:public.txt"}, "for a generator that is a language model"),
        ({"also": ("hf:a",), "survey": 0.1}, "also and survey cannot be combined"),
        ({"also": ("hf:a",), "engine": "ray"}, "also and engine cannot be combined"),
    ],
)
def test_what_cannot_write_together_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Settings.of({"epsilon": 1.0, **values})
