"""Texts written on a real cluster of two workers, by real models."""

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from contracts.language_model import LanguageModelContract
from distributed.cluster.on_workers import embedded, no_model
from distributed.cluster.processes import killed_at_work
from gape.core.errors import InputError, ServiceError
from gape.distributed.cluster import RayModel
from gape.language.embedded import EmbeddedModel
from gape.language.request import LanguageModel, Request
from gape.language.stored import Stored
from gape.language.transformers import TransformersModel
from small_model import FOLDER

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_here")]


def stories(count: int, tokens: int = 24) -> list[Request]:
    return [Request(f"Write about river number {i}.", max_tokens=tokens, seed=i) for i in range(count)]


class TestTransformers(LanguageModelContract):
    model: ClassVar[RayModel]
    failing: ClassVar[Request | None] = Request("too long for the context " * 600)

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _model(cls, ray_here: None) -> Iterator[None]:
        with RayModel(partial(TransformersModel, FOLDER, device="cpu", batch=4), 2, share=4) as cls.model:
            yield

    def make(self) -> LanguageModel:
        return self.model

    def test_it_is_known_by_the_name_of_the_model(self) -> None:
        assert self.model.name == repr(self.model) == TransformersModel(FOLDER, device="cpu").name


class TestEmbedded:
    def test_answers_are_those_of_one_process_whatever_the_workers_and_whoever_dies(self, tmp_path: Path) -> None:
        requests = stories(16)
        expected = dict(embedded().complete(requests))
        with RayModel(embedded, 1, share=5) as model:
            assert dict(model.complete(requests)) == expected
        with RayModel(embedded, 2, share=4) as model:
            first = model.pids
            with killed_at_work(first[0]) as killed:
                pairs = list(model.complete(requests))
            assert killed.is_set()
            assert model.replaced == 1
            assert model.pids[0] != first[0]
            assert len(pairs) == len(requests)
            assert dict(pairs) == expected
            os.kill(model.pids[1], signal.SIGKILL)
            stored = Stored(model, tmp_path / "answers.sqlite")
            assert dict(stored.complete(requests)) == expected
            assert model.replaced == 2
            assert stored.name == embedded().name
            stored.close()


class TestRefusals:
    def test_what_a_worker_cannot_load_is_said(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="on worker 0: there is no model file"):
            RayModel(partial(EmbeddedModel, tmp_path / "none.gguf"), 1)
        with pytest.raises(ServiceError, match="failed with ZeroDivisionError: division"):
            RayModel(no_model, 1)

    def test_bad_numbers(self) -> None:
        with pytest.raises(InputError, match="workers and share must be at least 1, got 0 and 64"):
            RayModel(embedded, 0)
        with pytest.raises(InputError, match="cores must be at least 1"):
            RayModel(embedded, 1, cores=0)

    def test_more_workers_than_the_cluster_has_cores_for(self) -> None:
        with pytest.raises(
            ServiceError, match=r"worker 2 could not be started \(no machine took it within 15 seconds\)"
        ):
            RayModel(embedded, 3, patience=15)
