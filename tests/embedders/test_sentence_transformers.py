import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from gape.core.errors import InputError
from gape.core.types import Samples
from gape.embedders.cached import Cached
from gape.embedders.privacy import require_private_embedding
from gape.embedders.sentence_transformers import SentenceTransformer

WORDS = ["heart", "liver", "kidney", "river", "soil", "protein", "cancer", "trial", "nurse", "school", "vaccine"]


def texts(*each: str) -> Samples:
    return np.array(each, dtype=object)


def many(count: int) -> list[str]:
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(WORDS, size=rng.integers(1, 12))) for _ in range(count)]


def build(folder: Path, *, pooling: str = "mean", seed: int = 0) -> Path:
    """Save a BERT of two layers with random weights as a sentence-transformers model."""
    import sentence_transformers  # noqa: PLC0415  (heavy)
    import torch  # noqa: PLC0415
    import transformers  # noqa: PLC0415
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer  # noqa: PLC0415

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])}
    config = transformers.BertConfig(
        vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=16,
    )  # fmt: skip
    bert = folder / "bert"
    transformers.BertModel(config).save_pretrained(bert)
    transformers.BertTokenizer(vocab=vocabulary, model_max_length=16).save_pretrained(bert)
    parts = [Transformer(str(bert)), Pooling(16, pooling)]
    sentence_transformers.SentenceTransformer(modules=parts, device="cpu").save(str(folder / "model"))
    return folder / "model"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def model(folder: Path) -> SentenceTransformer:
    return SentenceTransformer(folder, device="cpu", batch=4)


class TestEmbeddings:
    def test_somebody_can_be_told_how_far_it_is_with_texts_one_by_one(self, folder: Path) -> None:
        heard: list[tuple[int, int]] = []
        alone = SentenceTransformer(folder, device="cpu")
        watched = alone.watched(lambda done, of: heard.append((done, of)))
        some = texts(*dict.fromkeys(many(30)))
        np.testing.assert_array_equal(watched.embed(some), alone.embed(some))
        assert heard == sorted(heard)
        assert len(heard) > 5
        assert heard[-1] == (len(some), len(some))

    def test_they_are_finite_float32_rows_of_length_one(self, model: SentenceTransformer) -> None:
        points = model.embed(texts(*many(9), "", " ", "\ud800", "日本語", "river " * 100))
        assert points.shape == (14, 16)
        assert points.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0, rtol=1e-6)

    def test_they_are_the_librarys_own(self, model: SentenceTransformer) -> None:
        theirs = model._model.encode(many(9), normalize_embeddings=True)
        np.testing.assert_allclose(model.embed(texts(*many(9))), theirs, atol=1e-6)

    def test_order_changes_nothing_and_company_no_more_than_rounding(
        self, model: SentenceTransformer, folder: Path
    ) -> None:
        some = many(23)
        together = model.embed(texts(*some))
        np.testing.assert_array_equal(together[::-1], model.embed(texts(*some[::-1])))
        one = SentenceTransformer(folder, device="cpu", batch=1)
        np.testing.assert_allclose(one.embed(texts(*some)), together, atol=1e-6)
        assert not np.allclose(together[0], together[1], atol=1e-3)

    def test_in_batches_of_one_a_text_is_embedded_the_same_whatever_is_embedded_with_it(self, folder: Path) -> None:
        one = SentenceTransformer(folder, device="cpu")  # as a run has it
        assert one.batch == 1
        alone = np.concatenate([one.embed(texts(text)) for text in many(9)])
        np.testing.assert_array_equal(one.embed(texts(*many(9))), alone)

    def test_candidates_alone_are_embedded_in_larger_batches(self, folder: Path) -> None:
        one = SentenceTransformer(folder, device="cpu")
        inside = Cached(one).embedder
        assert isinstance(inside, SentenceTransformer)
        assert (one.batch, inside.batch > 1, repr(inside)) == (1, True, repr(one))
        np.testing.assert_allclose(inside.embed(texts(*many(9))), one.embed(texts(*many(9))), atol=1e-5)

    def test_equal_texts_get_equal_rows(self, model: SentenceTransformer) -> None:
        points = model.embed(texts(*many(6), *many(6)))
        np.testing.assert_array_equal(points[:6], points[6:])

    def test_no_texts_give_no_rows(self, model: SentenceTransformer) -> None:
        assert model.embed(texts()).shape == (0, 16)

    def test_it_may_see_private_text(self, model: SentenceTransformer) -> None:
        require_private_embedding(model)


class TestIdentity:
    def test_it_is_the_same_wherever_the_model_lies(
        self, model: SentenceTransformer, folder: Path, tmp_path: Path
    ) -> None:
        assert re.fullmatch(r"SentenceTransformer\(weights=[0-9a-f]{12}, max_tokens=16\)", repr(model))
        shutil.copytree(folder, tmp_path / "elsewhere")
        assert repr(SentenceTransformer(tmp_path / "elsewhere", device="cpu")) == repr(model)

    def test_other_weights_or_another_pooling_are_another_model(
        self, model: SentenceTransformer, tmp_path: Path
    ) -> None:
        others = [build(tmp_path / "seed", seed=1), build(tmp_path / "pooling", pooling="cls")]
        assert len({repr(model), *(repr(SentenceTransformer(other, device="cpu")) for other in others)}) == 3


class TestRefusals:
    def test_samples_that_are_no_texts(self, model: SentenceTransformer) -> None:
        with pytest.raises(InputError, match=r"embeds texts, got an array of float64 of shape \(2, 3\)"):
            model.embed(np.zeros((2, 3)))

    def test_a_batch_of_none(self, folder: Path) -> None:
        with pytest.raises(InputError, match="batch must be at least 1, got 0"):
            SentenceTransformer(folder, batch=0)

    def test_a_folder_that_is_no_model(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=re.escape(f"cannot load {tmp_path} (")):
            SentenceTransformer(tmp_path)

    def test_a_library_that_is_not_installed(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        monkeypatch.setitem(sys.modules, "sentence_transformers", None)
        with pytest.raises(InputError, match=re.escape("run `pip install 'gape[st]'`")):
            SentenceTransformer(folder)
