"""Images by captions: a real small language model writes them, a real small diffusion model or a service draws them."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pyarrow.parquet as pq
import pytest

from command import gape, one_line_error
from contracts.generator import TextGeneratorContract
from faulty_server import FORBIDDEN, FaultyServer
from gape.core.errors import InputError, ServiceError
from gape.core.protocols import Generator
from gape.embedders.images.png import Shape, as_url, stack
from gape.generators.images.captions import CaptionedImages, caption_of
from gape.generators.images.diffusion import DiffusionImages
from gape.generators.images.painting import WithPainter
from gape.generators.images.service import ImageService, ServiceImages
from gape.generators.prompts import generic
from gape.generators.resampled import ResampledText
from gape.language.request import Request
from gape.language.scripted import ScriptedModel
from gape.language.stored import stored_tokens
from gape.runs.folder.layout import Layout
from gape.runs.folder.record import read_run
from generators.images.small_diffusion import write_pipeline
from modalities.images.pictures import write_folder
from small_model import FOLDER, model

pytestmark = pytest.mark.filterwarnings("ignore")  # of the library
PLAN = ("--epsilon", "8", "--samples", "4", "--rounds", "2", "--scales", "0.6,0.9", "--modality", "images")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_pipeline(tmp_path_factory.mktemp("diffusion"))


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text('width = 16\nheight = 16\ncolours = "rgb"\nprompt = "a drawing"\n')
    return write_folder(tmp_path / "private", 30)


class TestContract(TextGeneratorContract):
    scale = 0.6

    @pytest.fixture(autouse=True)
    def _painter(self, pipeline: str) -> None:
        self.painter = DiffusionImages(pipeline, Shape(16, 16, 3), "a drawing", steps=1)

    def make(self) -> Generator:
        return CaptionedImages(ResampledText(model(), replace(generic("short stories"), words=8)), self.painter)


def test_a_variation_is_drawn_from_a_variation_of_the_caption(pipeline: str) -> None:
    painter = DiffusionImages(pipeline, Shape(16, 16, 3), "a drawing", steps=1)
    writer, rng = ResampledText(model(), replace(generic("short stories"), words=8)), np.random.default_rng(0)
    generator = CaptionedImages(writer, painter)
    samples = generator.random(3, rng)
    again = np.random.default_rng(0)
    assert [caption_of(sample) for sample in samples] == [" ".join(text.split()) for text in writer.random(3, again)]
    assert [as_url(sample) for sample in samples] == painter.draw([caption_of(sample) for sample in samples], again)
    varied = generator.vary(samples, np.full(3, 0.6), rng)
    assert all(caption_of(sample) for sample in varied)
    assert sum(caption_of(one) != caption_of(other) for one, other in zip(varied, samples, strict=True)) >= 2
    bare = np.array([as_url(sample) for sample in samples], dtype=object)
    with pytest.raises(InputError, match="has no caption"):
        generator.vary(bare, np.full(3, 0.6), rng)


def test_a_caption_that_is_not_drawn_costs_its_one_image() -> None:
    with FaultyServer() as server:
        service = ImageService(model="tiny", base_url=server.url, shape=Shape(8, 8, 3))
        words = iter(["a red door", f"see {FORBIDDEN}", "a blue door", f"see {FORBIDDEN}", f"see {FORBIDDEN}"])

        class Words:
            def random(self, count: int, rng: np.random.Generator) -> np.ndarray:
                return np.array([next(words) for _ in range(count)], dtype=object)

            def vary(self, samples: np.ndarray, scales: np.ndarray, rng: np.random.Generator) -> np.ndarray:
                return self.random(len(samples), rng)

        generator, rng = CaptionedImages(Words(), ServiceImages(service, "a photo")), np.random.default_rng(0)
        samples = generator.random(3, rng)
        assert {caption_of(sample) for sample in samples} == {"a red door", "a blue door"}
        np.testing.assert_array_equal(generator.vary(samples[:1], np.ones(1), rng), samples[:1])
        with pytest.raises(ServiceError, match="0 of 1 captions were drawn"):
            generator.random(1, rng)


def test_texts_and_pictures_go_to_their_own_models() -> None:
    pair = WithPainter(ScriptedModel(lambda request: "text"), ScriptedModel(lambda request: "picture"))
    answers = dict(pair.complete([Request("a", picture=""), Request("b"), Request("c", picture="x"), Request("d")]))
    assert [answers[index].text for index in range(4)] == ["picture", "text", "picture", "text"]
    assert "pictures by" in pair.name


def test_captions_of_a_language_model_evolve_and_a_diffusion_model_draws_them(data: Path, pipeline: str) -> None:
    asked = (
        data,
        "--schema",
        "schema.toml",
        *PLAN,
        "--generator",
        f"hf:{FOLDER}",
        "--painter",
        f"diffusers:{pipeline}",
    )
    done = gape("run", *asked, "--out", "run")
    assert done.exit_code == 0, done.stderr
    record = read_run("run")
    captions = [[caption_of(sample) for sample in record.samples(turn)] for turn in range(3)]
    assert all(caption for turn in captions for caption in turn)
    assert stack(record.samples(2)).shape == (4, 16, 16, 3)
    table = pq.read_table(Layout(Path("run")).published)
    assert table.column_names == ["image", "caption"]
    assert table["caption"].to_pylist() == captions[2]
    assert " ".join(captions[2][0].split()[:3]) in " ".join(done.stdout.split())
    assert gape("report", "run").exit_code == 0
    page = Layout(Path("run")).release_report.read_text()
    assert all(quote(caption, safe="") in page for caption in captions[2])
    more = gape("expand", "run", "--count", "6", "--out", "more.parquet")
    assert more.exit_code == 0, more.stderr
    assert all(pq.read_table("more.parquet")["caption"].to_pylist())


def test_a_pair_of_services_writes_and_draws_under_common_caps(data: Path) -> None:
    with FaultyServer() as texts, FaultyServer() as pictures:
        asked = [
            *(data, "--schema", "schema.toml", *PLAN, "--generator", "openai:tiny", "--painter", "openai-images:tiny"),
            *("--base-url", texts.url, "--painter-base-url", pictures.url, "--topics", "doors,windows"),
        ]
        exact = gape("run", *asked, "--epsilon", "inf", "--out", "exact")
        assert exact.exit_code == 1
        assert "would be asked to vary images chosen by votes without noise" in exact.stderr
        assert not texts.bodies + pictures.bodies
        stopped = gape("run", *asked, "--out", "run", "--image-price", "0.1", "--max-cost", "1.05")
        assert "which exceeds the cap of a cost of 1.05" in " ".join(stopped.stderr.split())
        assert pictures.tokens == 10
        done = gape("resume", "run", "--max-cost", "9")
        assert done.exit_code == 0, done.stderr
        answers, used = stored_tokens(Layout(Path("run")).answers)
        assert used.images == pictures.tokens == len(pictures.bodies)
        assert answers - used.images == len(texts.bodies)
        prompts = {body["prompt"] for body in pictures.bodies}
        assert all(prompt.startswith("a drawing: ") for prompt in prompts)
        assert all(f"a drawing: {caption_of(sample)}" in prompts for sample in read_run("run").samples(2))
        assert not any("image" in body for body in pictures.bodies)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--painter", "onnx:a.onnx"), "the painter 'onnx:a.onnx' is not for images"),
        (("--painter", "diffusers:x", "--generator", "fonts"), "the generator 'fonts' is not for images"),
        (("--generator", "embedded"), "is not for images; use fonts"),
        (("--modality", "text", "--painter", "diffusers:x", "--scales", "1"), "texts are not drawn"),
    ],
)
def test_pairs_that_do_not_fit_are_refused(data: Path, given: tuple[str, ...], message: str) -> None:
    assert message in one_line_error(gape("run", data, *PLAN, *given, "--out", "run"))
