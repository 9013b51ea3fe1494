"""Triton's kernels by its own interpreter, on the processor, against the same in torch. Nothing here needs a GPU."""

import importlib
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gape.language.gpu import llama, plain
from gape.voting.tops import DEPTH, GROUP, ROWS, _by_torch
from language.gpu.test_llama import COUNT, KINDS, ROOM, assert_same_logits, small

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="Triton is for Linux alone")]

LOCK = Path(__file__).parents[3] / "requirements" / "torch.txt"


@pytest.fixture(scope="module", autouse=True)
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Triton, which torch for the processor alone comes without, by its lock and for this file, to be interpreted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")  # it is read as a kernel is defined
        if importlib.util.find_spec("triton") is None:
            folder = tmp_path_factory.mktemp("triton")
            lock = folder / "lock.txt"
            (pinned,) = re.findall(r"^triton==.*(?:\n +--hash.*)+", LOCK.read_text(), flags=re.MULTILINE)
            lock.write_text(f"{pinned}\n")
            options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--target", str(folder / "site")]
            subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *options, "-r", lock], check=True)
            patch.syspath_prepend(folder / "site")
        yield


def random(*shape: int) -> Any:
    import torch  # noqa: PLC0415  (heavy)

    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


class TestSlots:
    @pytest.fixture
    def kernels(self) -> Any:
        return importlib.import_module("gape.language.gpu.kernels")

    @pytest.mark.parametrize("width", [16, 24, 64, 256])
    @pytest.mark.parametrize("shared", [1, 3])
    def test_attention(self, kernels: Any, width: int, shared: int) -> None:
        import torch  # noqa: PLC0415  (heavy)

        query, keys, values = random(5, 2, shared, width), random(5, 2, 70, width), random(5, 2, 70, width)
        lengths = torch.tensor([1, 3, 64, 65, 70])
        found = kernels.attention(query, keys, values, lengths, 0.3)
        torch.testing.assert_close(found, plain.attention(query, keys, values, lengths, 0.3), rtol=1e-3, atol=1e-3)

    @pytest.mark.parametrize("width", [48, 64, 200])
    def test_add_and_norm(self, kernels: Any, width: int) -> None:
        import torch  # noqa: PLC0415  (heavy)

        stream, change, weight = random(7, width), random(7, width), random(width)
        other = stream.clone()
        expected = plain.add_and_norm(other, change, weight, 1e-5)
        torch.testing.assert_close(kernels.add_and_norm(stream, change, weight, 1e-5), expected)
        torch.testing.assert_close(stream, other)

    @pytest.mark.parametrize("width", [32, 1100])
    def test_gate(self, kernels: Any, width: int) -> None:
        import torch  # noqa: PLC0415  (heavy)

        both = random(7, 2 * width)
        torch.testing.assert_close(kernels.gate(both), plain.gate(both))

    @pytest.mark.parametrize("width", [8, 16])  # powers of two, as `is_llama` sees to
    def test_rotate_and_keep(self, kernels: Any, width: int) -> None:
        import torch  # noqa: PLC0415  (heavy)

        heads, cosines, sines = random(6, 15, width), random(6, width), random(6, width)
        slots, places = torch.tensor([4, 4, 0, 1, 2, 2]), torch.tensor([0, 1, 5, 69, 3, 9])
        keys, values = random(5, 3, 70, width), random(5, 3, 70, width)
        others = [tensor.clone() for tensor in (heads, keys, values)]
        kernels.rotate_and_keep(heads, 12, cosines, sines, slots, places, keys, values)
        plain.rotate_and_keep(others[0], 12, cosines, sines, slots, places, *others[1:])
        for found, expected in zip((heads, keys, values), others, strict=True):
            torch.testing.assert_close(found, expected)

    @pytest.mark.parametrize(("kind", "settings"), KINDS)
    @pytest.mark.parametrize("lengths", [(9, 1, 4), (1,), (6,)])
    def test_whole_models(
        self,
        kernels: Any,
        monkeypatch: pytest.MonkeyPatch,
        kind: str,
        settings: dict[str, Any],
        lengths: tuple[int, ...],
    ) -> None:
        import torch  # noqa: PLC0415  (heavy)

        monkeypatch.setattr(llama, "operations", lambda device: kernels)
        alone, model = (small(kind, **settings | {"head_dim": 16}) for _ in range(2))
        assert_same_logits(alone, llama.Llama(torch, model, COUNT, ROOM), lengths, 2e-3)


class TestVotes:
    @pytest.mark.parametrize("shape", range(6))
    def test_the_largest_score_of_every_group(self, shape: int) -> None:
        import torch  # noqa: PLC0415  (heavy)

        kernels = importlib.import_module("gape.voting.kernels")
        rows, groups, depth = 2 * ROWS, 3, 2 * DEPTH
        halves, candidates = random(rows, depth).half(), random(groups * GROUP, depth).half()
        inverse, group_inverse, lift = random(rows).abs(), random(groups).abs(), random(groups * GROUP)
        lift[-5:] = -torch.inf  # as what fills up the last group has it
        found, expected = torch.zeros(2, groups, rows)
        kernels.tops(halves, inverse, candidates, group_inverse, lift, found, kernels.SHAPES[shape])
        _by_torch(halves, inverse, candidates, group_inverse, lift, expected)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_every_shape_is_tested() -> None:
    kernels = importlib.import_module("gape.voting.kernels")
    assert len(kernels.SHAPES) == 6
    assert os.environ["TRITON_INTERPRET"] == "1"
