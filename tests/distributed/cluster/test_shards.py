import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from gape.core.errors import InputError, PrivacyError
from gape.distributed.cluster import PointShard, TextShard, in_parts
from gape.distributed.cluster.shards import Block
from gape.embedders.minilm import MiniLM
from gape.embedders.openai import OpenAIEmbedder
from gape.modalities import Columns, Mixed, load_texts
from gape.modalities.mixed import MixedEmbedder


def write(path: Path, rows: list[tuple[str, str, str]]) -> str:
    path.write_text("review,stars,who\n" + "".join(f"{text},{stars},{who}\n" for text, stars, who in rows))
    return str(path)


def rows(count: int, start: int = 0) -> list[tuple[str, str, str]]:
    return [(f"text number {i}", str(1 + i % 5), f"user {i % 7}") for i in range(start, start + count)]


@pytest.fixture
def points(tmp_path: Path) -> tuple[str, str]:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "points.npy", rng.normal(size=(60, 3)).astype(np.float32))
    np.save(tmp_path / "users.npy", np.arange(60) % 40)
    return str(tmp_path / "points.npy"), str(tmp_path / "users.npy")


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", ["records", "users"])
def test_parts_hold_every_record_once_and_divide_no_user(points: tuple[str, str], workers: int, kind: str) -> None:
    file, users = points
    blocks = [part.read() for part in in_parts(PointShard(file, users if kind == "users" else None), workers)]
    whole = np.load(file)
    assert sum(len(block.points) for block in blocks) == len(whole)
    assert {row.tobytes() for block in blocks for row in block.points} == {row.tobytes() for row in whole}
    assert len({block.files for block in blocks}) == 1
    if kind == "users":
        owners = [set(block.units or ()) for block in blocks]
        assert sum(map(len, owners)) == len(set().union(*owners)) == 40


def test_files_of_a_glob_are_taken_in_the_order_of_their_names(tmp_path: Path) -> None:
    write(tmp_path / "b.csv", rows(4, 10))
    write(tmp_path / "a.csv", rows(3))
    block = TextShard(str(tmp_path / "*.csv"), MiniLM, text="review").read()
    numbers = [int(content.split()[-1]) for content in block.contents()]
    assert numbers == [0, 1, 2, 10, 11, 12, 13]
    assert len(block.files) == len(set(block.files)) == 2
    texts = np.concatenate([load_texts(tmp_path / name, "review").texts for name in ("a.csv", "b.csv")])
    assert np.array_equal(block.points, MiniLM().embed(texts))


def test_rows_with_texts_are_read_in_parts_as_by_one_process(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text('[stars]\nchoices = [1, 2, 3, 4, 5]\n[review]\ntext = "reviews"\n')
    file, mixed = write(tmp_path / "a.csv", rows(20)), Mixed(tmp_path / "schema.toml")
    sent = pickle.loads(pickle.dumps(mixed))  # noqa: S301  (our own)
    shard = TextShard(file, lambda: MixedEmbedder(mixed.schema, MiniLM()), user="who", modality=sent)
    blocks = [part.read() for part in in_parts(shard, 3)]
    whole = mixed.read(file, Columns(user="who"))
    points = MixedEmbedder(mixed.schema, MiniLM()).embed(whole.content)
    assert whole.contents is not None
    assert sorted(content for block in blocks for content in block.contents()) == sorted(whole.contents)
    assert sorted(text for block in blocks for text in block.texts) == sorted(text for text, _, _ in rows(20))
    np.testing.assert_allclose(
        sorted(row.tolist() for block in blocks for row in block.points), sorted(points.tolist()), atol=1e-6
    )
    assert len({block.files for block in blocks}) == 1


def test_parts_of_several_files_hold_every_record_once(tmp_path: Path) -> None:
    for name, start in (("a.csv", 0), ("b.csv", 5), ("c.csv", 13)):
        write(tmp_path / name, rows(9, start * 10))
    for user in (None, "who"):
        shard = TextShard(str(tmp_path / "*.csv"), MiniLM, text="review", user=user)
        found = [content for part in in_parts(shard, 3) for content in part.read().contents()]
        assert len(found) == len(set(found)) == 27


def test_a_user_and_a_text_are_told_apart_in_what_the_ledger_knows(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", rows(8))
    of_users = set(TextShard(file, MiniLM, text="review", user="who").read().contents())
    assert of_users == {f"{len(who)} {who} {text}".encode() for text, _, who in rows(8)}


def test_what_a_worker_has_read_cannot_be_sent(points: tuple[str, str]) -> None:
    block = PointShard(*points).read()
    with pytest.raises(PrivacyError, match="stay with the worker"):
        pickle.dumps(block)
    assert repr(block) == "Block(salted=True)"
    assert isinstance(block, Block)


def test_an_embedder_that_sends_texts_away_is_refused_before_any_is_read() -> None:
    embedder = partial(OpenAIEmbedder, model="m", base_url="http://127.0.0.1:1", key_variable="HOME")
    with pytest.raises(PrivacyError, match="another machine"):
        TextShard("not there.csv", embedder).read()


def test_bad_descriptions_are_refused(tmp_path: Path, points: tuple[str, str]) -> None:
    with pytest.raises(InputError, match="workers must be at least 1, got 0"):
        in_parts(PointShard(points[0]), 0)
    with pytest.raises(InputError, match="an index below"):
        PointShard(points[0], part=(2, 2))
    with pytest.raises(InputError, match="both or neither"):
        TextShard("a.csv", MiniLM, label="stars")
    with pytest.raises(InputError, match="no file matches"):
        TextShard(str(tmp_path / "none-*.csv"), MiniLM).read()
    with pytest.raises(InputError, match="FileNotFoundError"):
        PointShard(str(tmp_path / "none.npy")).read()
    with pytest.raises(InputError, match=r"users \(n,\)"):
        PointShard(points[0], points[0]).read()
    few = write(tmp_path / "few.csv", rows(2))
    for shard in (in_parts(TextShard(few, MiniLM, text="review"), 3)[2], in_parts(PointShard(points[0]), 61)[60]):
        with pytest.raises(InputError, match="fewer workers"):
            shard.read()


def test_pickled_vectors_are_not_executed(tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match="ValueError"):
        PointShard(str(tmp_path / "objects.npy")).read()
