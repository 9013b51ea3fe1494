"""Private images as vectors on disk: embedded block by block, killed and resumed, and voting as from memory."""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command import gape, one_line_error
from gape.core.errors import BudgetError, InputError, RunError
from gape.embedders.images.pixels import PixelEmbedder
from gape.embedders.images.png import Pixels, Shape, stack
from gape.generators.images.fonts import FontImages
from gape.modalities import Columns, Images, load_images
from gape.modalities.images import ImageSchema
from gape.privacy.ledger import Ledger
from gape.privacy.noise import SeededNoise
from gape.runs import embedding
from gape.runs.electorate import open_private, read_records, text_fingerprint
from gape.runs.embedding import embed_texts
from gape.runs.settings import Settings
from gape.runs.synthesize import run_text
from modalities.images.pictures import CANARY, as_file

LABELS = {"label": "label", "labels": ["0", "7"]}


def digits(count: int, seed: int) -> Pixels:
    """Draw zeros, then as many sevens."""
    parts = [FontImages(characters=digit).random(count // 2, np.random.default_rng(seed)) for digit in "07"]
    pixels: Pixels = stack(np.concatenate(parts))
    return pixels


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with one folder for each digit."""
    monkeypatch.chdir(tmp_path)
    for index, image in enumerate(digits(50, 1)):
        file = tmp_path / "digits" / "07"[index >= 25] / f"{CANARY}-{index:02}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(as_file(image))
    return tmp_path / "digits"


def table(data: Path) -> Path:
    """Write the same images, with ten people who own five each, into a Parquet file."""
    files = sorted(data.rglob("*.png"))
    cells = {
        "image": [{"bytes": file.read_bytes(), "path": file.name} for file in files],
        "label": [file.parent.name for file in files],
        "who": [f"{CANARY} {index % 10}" for index in range(len(files))],
    }
    pq.write_table(pa.table(cells), data.parent / "digits.parquet")
    return data.parent / "digits.parquet"


def chosen(data: Path, **values: Any) -> Settings:
    small = {"modality": "images", "epsilon": 4.0, "samples": 8, "rounds": 2, "scales": [0.1, 0.3]}
    return Settings.of(small, {"data": str(data), **values})


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_mode & 0o777, path.read_bytes()) for path in folder.iterdir()}


def test_a_folder_holds_vectors_and_no_image(data: Path) -> None:
    folder = embed_texts(chosen(data, label="label"), data.parent / "vectors")
    private = load_images(data)
    np.testing.assert_array_equal(np.load(folder.path / "vectors-00000.npy"), PixelEmbedder().embed(private.content))
    assert sorted(files(folder.path)) == ["gape-vectors.json", "labels.npy", "vectors-00000.npy"]
    assert {mode for mode, _ in files(folder.path).values()} == {0o600}
    assert folder.path.stat().st_mode & 0o777 == 0o700
    pixels = stack(private.content)
    for _, content in files(folder.path).values():
        assert CANARY.encode() not in content
        assert not any(image[8:20].tobytes() in content for image in pixels)
        assert not any(text[60:120].encode() in content for text in private.content)


@pytest.mark.parametrize("user", [None, "who"], ids=["folder", "table with users"])
def test_blocks_make_no_difference(data: Path, monkeypatch: pytest.MonkeyPatch, user: str | None) -> None:
    settings = chosen(table(data) if user else data, label="label", user=user)
    whole = embed_texts(settings, data.parent / "whole")
    assert (len(whole), whole.units) == (50, 10 if user else 50)
    monkeypatch.setattr(embedding, "_TEXTS_AT_ONCE", 7)
    told: list[int] = []
    assert files(embed_texts(settings, data.parent / "parts", progress=told.append).path) == files(whole.path)
    assert told == [7, 14, 21, 28, 35, 42, 49, 50]
    for salt in (b"one", b"another"):
        assert text_fingerprint(whole, salt) == text_fingerprint(read_records(settings), salt)


def test_killed_in_the_middle_it_goes_on_to_the_same_bytes(data: Path) -> None:
    whole = embed_texts(chosen(data, label="label"), data.parent / "whole")
    out = data.parent / "vectors"
    program = """
import os, signal
from gape.cli import main
from gape.runs import embedding as module
module._TEXTS_AT_ONCE = 10
append, calls = module.Filling.append, []

def killed(filling, *batch):
    append(filling, *batch)
    calls.append(batch)
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)

module.Filling.append = killed
main()
"""
    flags = ["embed", str(data), "--modality", "images", "--label", "label", "--out", str(out)]
    for done in (20, 40):
        ended = subprocess.run([sys.executable, "-c", program, *flags], capture_output=True, check=False)
        assert ended.returncode == -9, ended.stderr
        assert json.loads((out / "partial" / "progress.json").read_text())["rows"] == done
        with pytest.raises(RunError, match="not complete yet; repeat `gape embed`"):
            open_private(chosen(out))
    assert gape(*flags).exit_code == 0
    assert files(out) == files(whole.path)


def test_other_images_do_not_complete_what_was_begun(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "_TEXTS_AT_ONCE", 10)

    def interrupted(done: int) -> None:
        if done == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_texts(chosen(data), data.parent / "vectors", progress=interrupted)
    next(iter(sorted(data.rglob("*.png")))).write_bytes(as_file(digits(2, 9)[0]))
    with pytest.raises(RunError, match="differs from the records already in") as caught:
        embed_texts(chosen(data), data.parent / "vectors")
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("columns", [{}, LABELS, {**LABELS, "user": "who"}], ids=["records", "labels", "users"])
def test_from_disk_a_run_is_what_it_is_in_memory(data: Path, columns: dict[str, Any]) -> None:
    source = table(data) if "user" in columns else data
    names = {name: value for name, value in columns.items() if name != "labels"}
    folder = embed_texts(chosen(source, **names), data.parent / "vectors").path
    in_memory = run_text(chosen(source, **columns), data.parent / "one", noise=SeededNoise(7))
    with pytest.raises(BudgetError, match="budget_epsilon"):  # there is one budget for both
        run_text(chosen(folder, **columns), data.parent / "two")
    source.rename(data.parent / "away")  # the images are not needed any more
    from_disk = run_text(chosen(folder, **columns, budget_epsilon=9.0), data.parent / "two", noise=SeededNoise(7))
    assert (from_disk.texts, from_disk.labels) == (in_memory.texts, in_memory.labels)
    for turn in ("001", "002"):
        votes = [data.parent / run / "internal" / "rounds" / turn / "votes.parquet" for run in ("one", "two")]
        assert pq.read_table(votes[0]) == pq.read_table(votes[1])
    assert from_disk.privacy.epsilon == in_memory.privacy.epsilon
    with closing(Ledger(data.parent / f"{source.name}.gape-ledger.sqlite")) as ledger:
        assert len(ledger.releases()) == 4  # of both runs


def test_vectors_of_another_size_are_refused_before_anything_is_spent(data: Path) -> None:
    folder = embed_texts(chosen(data), data.parent / "vectors").path
    schema = data.parent / "larger.toml"
    schema.write_text("width = 56\nheight = 56\n")
    with pytest.raises(InputError, match=r"of images 28 x 28, grey, not by .* of images 56 x 56, grey; run with"):
        run_text(chosen(folder, schema=str(schema)), data.parent / "run")
    schema.write_text('characters = "07"\n')  # what is drawn does not matter to the vectors
    assert run_text(chosen(folder, schema=str(schema)), data.parent / "run").texts


def test_a_corpus_with_a_private_image_is_refused(data: Path) -> None:
    corpus = data.parent / "public"
    corpus.mkdir()
    for index, image in enumerate([*digits(20, 3), load_pixels(data)[4]]):
        (corpus / f"{index}.png").write_bytes(as_file(image))
    assert gape("embed", data, "--modality", "images", "--out", "vectors").exit_code == 0
    sizes = ("--epsilon", "4", "--samples", "8", "--rounds", "1")
    asked = ("run", "vectors", "--modality", "images", *sizes, "--generator", f"corpus:{corpus}", "--out", "run")
    assert "contains at least one private record" in one_line_error(gape(*asked))
    (corpus / "20.png").unlink()
    assert gape(*asked).exit_code == 0
    with pytest.raises(InputError, match="holds vectors, and here the images are needed"):
        read_records(chosen(Path("vectors")))


def test_what_cannot_be_read_is_refused_by_its_number(data: Path) -> None:
    sorted(data.rglob("*.png"))[30].write_bytes(b"no image")
    refused = one_line_error(gape("embed", data, "--modality", "images", "--out", "vectors"))
    assert "image 31 of digits, by name, is not a PNG or JPEG image" in refused
    assert CANARY not in refused
    column = gape("embed", table(data), "--modality", "images", "--vectors", "image", "--out", "other")
    assert "vectors are read for texts, not for images; leave vectors out" in one_line_error(column)


def test_only_one_block_is_read_at_a_time_and_large_images_make_small_blocks(data: Path) -> None:
    sorted(data.rglob("*.png"))[30].write_bytes(b"no image")
    blocks = Images().blocks(data, Columns(), 10)
    assert [len(next(blocks)) for _ in range(3)] == [10, 10, 10]
    with pytest.raises(InputError, match="image 31"):
        next(blocks)
    large = Images(ImageSchema(Shape(1024, 1024, 3)))
    assert [len(block) for block in large.blocks(np.zeros((25, 4, 4, 3), np.uint8), Columns(), 1024)] == [21, 4]


def load_pixels(data: Path) -> Pixels:
    pixels: Pixels = stack(load_images(data).content)
    return pixels
