"""Private images through every command: plan, run, kill, resume, evaluate, report, export, expand, audit."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from experiments.images.small_onnx import write_decoder
from PIL import Image

from command import gape, one_line_error
from gape.core.errors import RunError
from gape.embedders.images.pixels import PixelEmbedder
from gape.embedders.images.png import Pixels, as_images, as_url, is_image, stack
from gape.generators.images.fonts import FontImages
from gape.metrics import mean_nearest_distance
from gape.modalities import Columns, Images, load_images
from gape.runs.folder.layout import Layout
from gape.runs.folder.record import read_run
from modalities.images.pictures import as_file, write_idx

ASKED = ("--modality", "images", "--epsilon", "8", "--samples", "12", "--rounds", "2", "--scales", "0.1,0.3")
LABELS = ("--label", "label", "--labels", "0,7")


def digits(count: int, seed: int) -> tuple[Pixels, list[int]]:
    """Draw zeros and sevens as private data, with parameters near each other."""
    parts = [FontImages(characters=digit).random(count // 2, np.random.default_rng(seed)) for digit in "07"]
    return stack(np.concatenate(parts))[..., 0], [0] * (count // 2) + [7] * (count // 2)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    images, labels = digits(160, 1)
    write_idx(tmp_path / "held", *digits(60, 2))
    return write_idx(tmp_path / "private", images, labels)


def output(*arguments: object) -> str:
    done = gape(*arguments)
    assert done.exit_code == 0, f"{arguments}: {done.stderr or done.exception!r}"
    return done.stdout


def killed_in_a_round(arguments: list[str], run: Path) -> None:
    """Start the run in a process of its own, and kill it as soon as the first votes are on disk."""
    slow = (
        "import time; from gape.generators.images.fonts import FontImages; before = FontImages.vary\n"
        "def vary(*given): time.sleep(0.7); return before(*given)\n"
        "FontImages.vary = vary; from gape.cli import main; main()"
    )
    with subprocess.Popen([sys.executable, "-c", slow, "run", *arguments], env=os.environ) as process:
        while process.poll() is None and not Layout(run).round(1).synthetic.exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL


def test_labelled_digits_go_through_every_command(data: Path) -> None:
    planned = " ".join(output("plan", data, *ASKED, *LABELS).split())
    assert "12 samples; 2 variations of each and the image itself" in planned
    run = data.parent.parent / "run"
    killed_in_a_round([str(data), *ASKED, *LABELS, "--out", str(run)], run)
    assert not Layout(run).published.exists()
    assert "stopped" in output("status", run)
    resumed = " ".join(output("resume", run).split())
    assert "⠀" in resumed
    assert "--format folder` writes the images as files" in resumed
    assert "finished" in output("status", run)

    published = pq.read_table(Layout(run).published)
    assert published.column_names == ["image", "label"]
    assert published["image"][0]["bytes"].as_py().startswith(b"\x89PNG")
    assert set(published["label"].to_pylist()) == {"0", "7"}

    output("evaluate", run, "--private", data, "--held-out", data.parents[1] / "held", "--nearest", "nearest.png")
    scores = json.loads(Layout(run).evaluation.read_text())
    found = {measure["name"]: measure["value"] for group in scores["groups"].values() for measure in group}
    assert found["accuracy"] > 0.6  # 0.5 by chance
    assert found["images that are records"] == 0
    assert {"Fréchet distance", "recall", "precision", "density", "held-out images that are records"} <= set(found)

    panel = Path("nearest.png")
    assert panel.stat().st_mode & 0o777 == 0o600
    with Image.open(panel) as image:
        assert image.size == (12 * 28, 2 * 28)  # each sample above its nearest record
        lower = np.asarray(image)[28:, :28]
    inside = run / "release" / "nearest.png"
    assert "is in the folder of a run" in one_line_error(gape("evaluate", run, "--private", data, "--nearest", inside))
    assert any((lower == record[:, :, 0]).all() for record in stack(load_images(data).content))

    output("report", run)
    page = Layout(run).release_report.read_text()
    assert "12 synthetic images" in page
    assert "data:image/png;base64," in page
    assert '"pictured":true' in page
    output("report", run, "--internal", "--private", data)

    assert output("export", run, "--format", "folder", "--out", "digits") == "digits\n"  # not a line for each image
    assert {path.name for path in Path("digits").iterdir()} == {"0", "7", "README.md", "privacy.json"}
    again = load_images("digits/7")
    last = read_run(run).samples(2)
    sevens = {as_url(text) for text in last["text"][last["label"] == "7"]}
    assert set(again.content) == sevens
    output("export", run, "--out", "digits.parquet")
    assert len(load_images("digits.parquet", None, Columns(label="label"))) == 12
    output("export", run, "--out", "lines.jsonl")
    output("export", run, "--format", "hf", "--out", "hub")
    assert "dtype: image" in Path("hub/README.md").read_text()
    output("expand", run, "--count", "30", "--out", "more.parquet")
    assert len(pq.read_table("more.parquet")) == 30
    assert "The books are in order" in output("audit", run)


def test_images_of_a_public_folder(data: Path) -> None:
    corpus = data.parents[1] / "public"
    corpus.mkdir()
    for index, image in enumerate(digits(40, 3)[0]):
        (corpus / f"{index}.png").write_bytes(as_file(image))
    output("run", data, *ASKED, "--generator", f"corpus:{corpus}", "--out", "run")
    public = set(load_images(corpus).content)
    assert set(read_run("run").samples(2)) <= public
    private = load_images(data)
    (corpus / "one.png").write_bytes(as_file(stack(private.content[:1])[0]))
    assert "contains at least one private record" in one_line_error(
        gape("run", data, *ASKED, "--generator", f"corpus:{corpus}", "--out", "other", "--ledger", "other.sqlite")
    )


def test_a_unique_image_is_in_no_file_and_in_no_message(data: Path) -> None:
    """Neither its file, nor its pixels at any size, nor its text."""
    images, labels = digits(160, 1)
    canary = np.random.default_rng(55190).integers(0, 256, (28, 28), dtype=np.uint8)
    images[80] = canary
    data = write_idx(data.parent, images, labels)
    said = output("run", data, *ASKED, *LABELS, "--out", "run") + output("report", "run")
    text = as_images([canary[:, :, None]])[0]
    traces = (canary.tobytes(), canary[3:9].tobytes(), text[60:160].encode(), as_file(canary)[60:160])
    kept = [path for path in Path("run").rglob("*") if path.is_file()] + list(data.parent.glob("*.sqlite"))
    assert len(kept) > 10
    for path in kept:
        assert not any(trace in path.read_bytes() for trace in traces), path
    assert all(text[60:160] not in words for words in (said, *map(str, kept)))
    stored = [sample for turn in range(3) for sample in read_run("run").samples(turn)["text"]]
    assert all(is_image(sample) and as_url(sample) != text for sample in stored)


def test_a_plan_says_that_fonts_draw_characters_only(data: Path) -> None:
    said = "fonts draws the characters '0123456789' and nothing else"
    assert said in " ".join(output("plan", data, *ASKED).split())
    assert said not in " ".join(output("plan", data, *ASKED, *LABELS).split())  # each label is a character


def test_what_does_not_suit_images_is_refused(data: Path) -> None:
    assert "is not for images; use fonts" in one_line_error(gape("run", data, *ASKED, "--generator", "embedded"))
    assert "prompts has no meaning for images" in one_line_error(gape("run", data, *ASKED, "--prompts", "yelp"))
    assert "scales of images must be above 0" in one_line_error(
        gape("run", data, "--modality", "images", "--epsilon", "1", "--scales", "2")
    )


def test_samples_that_are_not_images_are_refused(data: Path) -> None:
    kind = Images()
    images = FontImages().random(2, np.random.default_rng(0))
    np.testing.assert_array_equal(kind.from_arrow(pa.chunked_array([kind.to_arrow(images)])), images)
    np.testing.assert_array_equal(kind.restore(pa.table(kind.publish(images))), [as_url(image) for image in images])
    with pytest.raises(RunError, match="does not hold images"):
        kind.from_arrow(pa.chunked_array([pa.array(["a text"])]))


def test_a_model_with_latent_vectors(data: Path) -> None:
    """A decoder made from public digits gets nearer to private ones, and its images can be varied after the run."""
    public = stack(FontImages(characters="07").random(300, np.random.default_rng(5))).reshape(300, -1) / 255
    _, lengths, rows = np.linalg.svd(public - public.mean(axis=0), full_matrices=False)
    weights = 8 * rows[:12] * (lengths[:12] / np.sqrt(300))[:, None]
    model = write_decoder(data.parents[1] / "decoder.onnx", weights, 8 * (public.mean(axis=0) - 0.5), (1, 28, 28))
    # So little noise and so many rounds that no draw of the noise hides the way.
    asked = (*ASKED, "--epsilon", "200", "--rounds", "5", "--generator", f"onnx:{model}", "--out", "run")
    output("run", data, *asked)
    record, embed = read_run("run"), PixelEmbedder().embed
    real = embed(load_images(data.parents[1] / "held").content)
    first, last = (mean_nearest_distance(real, embed(record.samples(turn)[:12])) for turn in (0, 5))
    assert last < first
    output("expand", "run", "--count", "20", "--out", "more.parquet")
    assert len(pq.read_table("more.parquet")) == 20
    Path("run").rename("received")  # as from somebody else: the model is not loaded by its name alone
    settings = Path("received/internal/settings.toml")
    settings.write_text(settings.read_text().replace("seed = 0", "seed = 0 "))
    assert "generator" in one_line_error(gape("expand", "received", "--count", "30", "--out", "again.parquet"))


def test_users_are_protected_with_all_their_images(data: Path) -> None:
    folder = data.parents[1] / "files"
    folder.mkdir()
    lines = ["file_name,kind,who"]
    for index, image in enumerate(digits(40, 4)[0]):
        (folder / f"{index}.png").write_bytes(as_file(image))
        lines.append(f"{index}.png,{'07'[index >= 20]},person {index % 10}")
    (folder / "metadata.csv").write_text("\n".join(lines) + "\n")
    output("run", folder, *ASKED, "--label", "kind", "--labels", "0,7", "--user", "who", "--out", "run")
    statement = json.loads(Path("run/release/privacy.json").read_text())
    assert statement["unit"] == "user"
    assert statement["private"]
