"""Characters drawn with fonts."""

import shutil
from pathlib import Path

import matplotlib
import numpy as np
import pytest

from contracts.generator import TextGeneratorContract
from gape.core.errors import InputError
from gape.core.protocols import Generator
from gape.embedders.images.pixels import PixelEmbedder
from gape.embedders.images.png import Shape, as_images, note_of, stack
from gape.generators.images.faces import Faces
from gape.generators.images.fonts import FontImages
from gape.metrics.usefulness import classify

FACES = Faces()


class TestContract(TextGeneratorContract):
    def make(self) -> Generator:
        return FontImages(faces=FACES)


class TestInColour(TextGeneratorContract):
    def make(self) -> Generator:
        return FontImages(Shape(20, 16, 3), "abc", FACES)

    def test_images_have_their_shape(self) -> None:
        assert stack(self.random(3)).shape == (3, 16, 20, 3)


def test_variations_move_away_as_the_scale_grows() -> None:
    generator, rng, embedder = FontImages(faces=FACES), np.random.default_rng(0), PixelEmbedder()
    start = generator.random(100, rng)
    moved = [
        float(np.linalg.norm(embedder.embed(generator.vary(start, np.full(100, scale), rng)) - embedder.embed(start)))
        for scale in (0.02, 0.1, 0.3, 1.0)
    ]
    assert moved == sorted(moved)
    assert moved[0] < moved[-1] / 5


def test_characters_come_in_turn_stay_as_they_are_and_can_be_told_apart() -> None:
    generator, rng = FontImages(faces=FACES), np.random.default_rng(0)
    start = generator.random(400, rng)
    varied = generator.vary(start, np.full(400, 0.2), rng)
    labels = [note_of(sample)[2] for sample in start]
    assert labels == [note_of(sample)[2] for sample in varied] == list("0123456789") * 40
    embed = PixelEmbedder().embed
    assert classify(embed(start), labels, embed(varied), labels).accuracy > 0.3  # 0.1 by chance


def test_the_fonts_differ_in_what_they_draw() -> None:
    sevens = [FACES.draw(face, "7") for face in range(len(FACES))]
    assert len(FACES) >= 40
    assert len({seven.tobytes() for seven in sevens if seven is not None}) == len(FACES)


def test_an_image_that_it_did_not_draw_is_not_varied() -> None:
    generator, rng = FontImages(faces=FACES), np.random.default_rng(0)
    drawn = generator.random(1, rng)[0]
    foreign = as_images(np.zeros((1, 28, 28, 1), np.uint8))[0]
    for sample in (
        foreign,
        drawn[:-3],
        drawn.replace("[", "[[", 1),
        f'{foreign}#["0",999,[0]]',
        f'{foreign}#["0",-1,[0]]',
    ):
        samples = np.array([sample], dtype=object)
        with pytest.raises(InputError, match="not drawn by these fonts"):
            generator.vary(samples, np.array([0.5]), rng)


def test_fonts_of_a_folder(tmp_path: Path) -> None:
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    shutil.copy(fonts / "DejaVuSans.ttf", tmp_path)
    faces = Faces(tmp_path)
    assert len(faces) == 1
    images = stack(FontImages(characters="Aй", faces=faces).random(2, np.random.default_rng(0)))
    assert (images.reshape(2, -1).max(axis=1) > 100).all()
    with pytest.raises(InputError, match="no font has the character"):
        FontImages(characters="𓀀", faces=faces).random(1, np.random.default_rng(0))
    (tmp_path / "broken.ttf").write_bytes(b"no font")
    with pytest.raises(InputError, match="font 2 cannot be read"):
        FontImages(faces=Faces(tmp_path)).random(1, np.random.default_rng(0))
    (tmp_path / "broken.ttf").unlink()
    (tmp_path / "linked.ttf").symlink_to(fonts / "DejaVuSans-Bold.ttf")
    with pytest.raises(InputError, match="is not a font file"):
        repr(Faces(tmp_path))
    with pytest.raises(InputError, match="is not a folder"):
        repr(Faces(tmp_path / "none"))


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(InputError, match="characters must be one or more"):
        FontImages(characters="", faces=FACES)
