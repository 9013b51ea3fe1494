import json
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

import made_gguf
from contracts.language_model import LanguageModelContract
from gape.core.errors import InputError
from gape.language.gpu.decoding import Batch
from gape.language.gpu.sampling import Sampling, last_tokens
from gape.language.request import LanguageModel, Request
from gape.language.transformers import TransformersModel
from small_model import FOLDER, MIXED, answers, model, tokens

CHAT = (
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}[a] {% endif %}"
)
UNFILTERED = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}


@pytest.fixture
def altered(tmp_path: Path) -> Callable[..., Path]:
    """Make a copy of the model with other content in some of its files."""

    def make(**contents: str) -> Path:
        folder = tmp_path / f"altered{len(list(tmp_path.iterdir()))}"
        shutil.copytree(FOLDER, folder)
        for name, content in contents.items():
            (folder / name.replace("__", ".")).write_text(content)
        return folder

    return make


class TestContract(LanguageModelContract):
    failing: ClassVar[Request | None] = Request("too long for the context " * 100)

    def make(self) -> LanguageModel:
        return model()


class TestBatches:
    @pytest.mark.parametrize("batch", [1, 5, 64])
    def test_an_answer_does_not_depend_on_its_batch(self, batch: int) -> None:
        assert answers(*MIXED, by=model(batch)) == answers(*MIXED)

    def test_one_that_is_done_is_not_kept_back(self) -> None:
        requests = [Request("Tim", max_tokens=limit) for limit in (30, 3, 12, 3)]
        assert [place for place, _ in model().complete(requests)] == [1, 3, 2, 0]

    def test_a_batch_too_large_for_the_memory_is_halved(self, monkeypatch: pytest.MonkeyPatch) -> None:
        small = TransformersModel(FOLDER, device="cpu", batch=8)
        whole = Batch._next
        steps = 0

        def short_of_memory(batch: Batch, ids: Any, mask: Any, cache: Any) -> Any:
            nonlocal steps
            steps += 1
            if len(ids) > 3 and steps > 8:  # some answers are done by then
                raise small._torch.OutOfMemoryError("there is no more")
            return whole(batch, ids, mask, cache)

        monkeypatch.setattr(Batch, "_next", short_of_memory)
        pairs = list(small.complete(MIXED))
        assert len(pairs) == len(MIXED)
        assert [completion for _, completion in sorted(pairs, key=lambda pair: pair[0])] == answers(*MIXED)


class TestAnswers:
    def test_at_temperature_zero_they_are_the_librarys_own(self) -> None:
        import torch  # noqa: PLC0415  (heavy)

        question = Request("Once upon a time", "there was a", max_tokens=20, temperature=0.0, seed=7)
        ids = tokens("Once upon a time\nthere was a")
        how = {"max_new_tokens": 20, "do_sample": False, "repetition_penalty": 1.05}
        theirs = model()._model.generate(torch.tensor([ids]), **how)[0].tolist()
        (ours,) = answers(question)
        whole = model()._tokenizer.decode(theirs, skip_special_tokens=True)
        assert whole == "Once upon a time\nthere was a" + ours.text
        assert (ours.prompt_tokens, ours.completion_tokens, ours.finished) == (len(ids), 20, False)

    @pytest.mark.parametrize(("opening", "first"), [("there was a", " "), ("there was a ", "l")])
    def test_it_goes_on_from_an_opening_with_or_without_the_last_space(self, opening: str, first: str) -> None:
        (completion,) = answers(Request("Once upon a time", opening, temperature=0.0, max_tokens=8))
        assert completion.text[0] == first
        assert (opening + completion.text).startswith("there was a little girl")

    def test_it_stops_where_the_model_ends(self, altered: Callable[..., Path]) -> None:
        (point,) = set(tokens("dog.", special=False)) - set(tokens("dog", special=False))
        ending = TransformersModel(altered(generation_config__json=json.dumps({"eos_token_id": [2, point]})))
        question = Request("Once upon a time", "there was a", max_tokens=60, temperature=0.0)
        (whole,), (ended,) = answers(question), answers(question, by=ending)
        assert ended.text == whole.text.partition(".")[0]
        assert ended.finished
        assert ended.completion_tokens == len(tokens(ended.text.strip(), special=False)) + 1

    def test_the_context_is_where_the_longest_answer_ends(self) -> None:
        (completion,) = answers(Request("Tim " * 150, max_tokens=10_000))
        assert completion.prompt_tokens + completion.completion_tokens == 512
        assert not completion.finished

    def test_another_seed_is_another_answer(self) -> None:
        requests = [Request("Tell me a story.", max_tokens=10, seed=seed) for seed in (0, 1, -1, 2**63)]
        first, again = (answers(*requests) for _ in range(2))
        assert first == again
        assert len({completion.text for completion in first}) > 1

    def test_half_a_surrogate_pair_is_no_obstacle(self) -> None:
        assert answers(Request("a \ud800 dog", max_tokens=2))[0].completion_tokens == 2


class TestChat:
    def test_the_chat_template_is_the_models_own(self, altered: Callable[..., Path]) -> None:
        folder = altered(chat_template__jinja=CHAT)
        plain, told = TransformersModel(folder), TransformersModel(folder, system="Be brief.")
        request = Request("Hello.", "Well, ", max_tokens=4)
        assert plain._chat(request) == "[user] Hello.\n[a] Well,"
        assert told._chat(request) == "[system] Be brief.\n[user] Hello.\n[a] Well,"
        (completion,) = answers(request, by=plain)
        assert completion.prompt_tokens == len(tokens("[user] Hello.\n[a] Well,", special=False))
        assert len({plain.name, told.name, model().name}) == 3

    def test_without_a_template_the_answer_follows_the_prompt(self) -> None:
        assert model()._chat(Request("Hello.", "Well, ")) == "Hello.\nWell,"
        told = TransformersModel(FOLDER, system="Be brief.")
        assert told._chat(Request("Hello.")) == "Be brief.\nHello.\n"

    def test_an_empty_line_ends_the_answer_of_a_base_model(self, altered: Callable[..., Path]) -> None:
        words = json.loads((FOLDER / "tokenizer.json").read_text())
        number = words["model"]["vocab"].pop("\u2581little")
        words["model"]["vocab"]["\n\n"] = number  # the model writes this token where it wrote "little"
        words["model"]["merges"] = [merge for merge in words["model"]["merges"] if "".join(merge) != "\u2581little"]
        contents = {"tokenizer__json": json.dumps(words)}
        base, chat = (
            altered(**contents),
            altered(**contents, chat_template__jinja="{{ bos_token + messages[0].content + '\\n' }}"),
        )
        request = Request("Once upon a time", "there was a", max_tokens=8, temperature=0.0)
        (ended,), (whole,) = (answers(request, by=TransformersModel(folder)) for folder in (base, chat))
        assert (ended.text, ended.completion_tokens, ended.finished) == ("", 1, True)
        assert (whole.text[:2], whole.completion_tokens) == ("\n\n", 8)

    def test_a_text_of_a_gguf_file_starts_with_its_first_token(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415  (heavy)

        request = Request("Once upon a time", "there was a", max_tokens=8, temperature=0.0)
        expected, file = answers(request), made_gguf.make(tmp_path / "small.gguf")
        load_words, load_model = AutoTokenizer.from_pretrained, AutoModelForCausalLM.from_pretrained
        # transformers would need the package gguf, and its tokenizer then forgets the first token.
        monkeypatch.setattr(AutoTokenizer, "from_pretrained", lambda *_, **__: load_words(FOLDER, add_bos_token=False))
        monkeypatch.setattr(
            AutoModelForCausalLM, "from_pretrained", lambda *_, **how: load_model(FOLDER, dtype=how["dtype"])
        )
        assert answers(request, by=TransformersModel(file)) == expected

    def test_a_template_that_takes_no_system_prompt(self, altered: Callable[..., Path]) -> None:
        picky = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
        with pytest.raises(InputError, match=r"\(no system role\).* a system prompt only if it accepts one"):
            TransformersModel(altered(chat_template__jinja=picky), system="Be brief.")


def shares(
    sampling: dict[str, Any], logits: list[float], temperature: float, grid: int = 4000, recent: Sequence[int] = (0,)
) -> NDArray[np.float64]:
    """How often each token is sampled when the draws are spread evenly over [0, 1)."""
    import torch  # noqa: PLC0415  (heavy)

    sampled, finite = Sampling(**sampling)(
        torch,
        torch.tensor([logits] * grid),
        torch.full((grid,), temperature, dtype=torch.double),
        torch.arange(grid, dtype=torch.double)[:, None] / grid,
        torch.tensor([last_tokens(list(recent))] * grid),
    )
    assert sampled.shape == (grid, 1)
    assert finite.all()
    return np.bincount(sampled[:, 0].numpy(), minlength=len(logits)) / grid


class TestSampling:
    LOGITS = (0.5, -1.0, 2.0, 1.9, -4.0, 0.0, 2.0)

    @pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
    @pytest.mark.parametrize(
        ("sampling", "kept"),
        [
            (UNFILTERED, {0, 1, 2, 3, 4, 5, 6}),
            ({**UNFILTERED, "top_k": 3}, {2, 3, 6}),
            ({**UNFILTERED, "top_k": 1000}, {0, 1, 2, 3, 4, 5, 6}),
            ({**UNFILTERED, "top_p": 0.88}, {0, 2, 3, 6}),  # the three likeliest have 0.864 of the probability
            ({**UNFILTERED, "min_p": 0.1}, {0, 2, 3, 5, 6}),  # a tenth of the likeliest is 2 - ln 10 = -0.3
            ({"top_k": 5, "top_p": 0.9, "min_p": 0.2}, {0, 2, 3, 6}),
        ],
    )
    def test_tokens_come_as_often_as_they_should(
        self, sampling: dict[str, Any], kept: set[int], temperature: float
    ) -> None:
        logits = np.array(self.LOGITS)
        weights = np.where(np.isin(np.arange(7), list(kept)), np.exp(logits / temperature), 0.0)
        expected = weights / weights.sum()
        np.testing.assert_allclose(shares(sampling, list(self.LOGITS), temperature), expected, atol=1e-3)

    def test_tokens_that_were_just_written_are_made_less_likely_once(self) -> None:
        """As llama.cpp has it: a positive logit is divided by the penalty, and a negative one multiplied."""
        logits = np.array(self.LOGITS)
        logits[2], logits[1] = 2.0 / 1.3, -1.0 * 1.3
        expected = np.exp(logits) / np.exp(logits).sum()
        found = shares({**UNFILTERED, "repeat_penalty": 1.3}, list(self.LOGITS), 1.0, recent=[2, 1, 2, 2])
        np.testing.assert_allclose(found, expected, atol=1e-3)

    def test_the_last_64_tokens_count_and_none_before(self) -> None:
        assert last_tokens(list(range(100))) == list(range(36, 100))
        assert last_tokens([5, 6]) == [5] * 63 + [6]

    def test_a_penalty_has_an_answer_repeat_itself_less(self) -> None:
        def repeated(penalty: float) -> int:
            own = TransformersModel(FOLDER, device="cpu", repeat_penalty=penalty)
            asked = [Request("Once upon a time", max_tokens=60, temperature=0.0), Request("Lily", max_tokens=60)]
            return sum(len(answer.text.split()) - len(set(answer.text.split())) for answer in answers(*asked, by=own))

        assert repeated(1.5) < repeated(1.0)

    def test_a_token_without_a_chance_never_comes(self) -> None:
        found = shares({**UNFILTERED, "top_k": 1}, [1.0, 0.0, 3.0, 2.0], 1.0)
        np.testing.assert_array_equal(found, [0, 0, 1, 0])

    @pytest.mark.parametrize("wrong", [np.nan, np.inf])
    def test_values_that_are_not_finite_are_refused(self, wrong: float) -> None:
        broken = TransformersModel(FOLDER, device="cpu")
        broken._model.model.norm.weight.data.fill_(wrong)
        with pytest.raises(InputError, match="not finite; load it in bfloat16 or float32"):
            answers(*MIXED, by=broken)


class TestName:
    def test_it_tells_the_model_the_precision_the_sampling_and_the_system_prompt(self) -> None:
        other = TransformersModel(FOLDER, dtype="bfloat16", device="cpu", min_p=0.1, system="You write.")
        pattern = r"llama [0-9a-f]{12} \(%s, top_k=400, top_p=0.95, min_p=%s, repeat_penalty=1.05, system='%s'\)"
        assert re.fullmatch(pattern % ("float32", "0.0", ""), model().name)
        assert re.fullmatch(pattern % ("bfloat16", "0.1", "You write."), other.name)
        assert len(answers(Request("Tim", max_tokens=3), by=other)) == 1

    def test_it_is_the_same_wherever_the_model_lies_and_however_it_is_run(self, altered: Callable[..., Path]) -> None:
        assert TransformersModel(altered(), batch=1, device="cpu").name == model(64).name


class TestRefusals:
    def test_a_folder_that_is_no_model(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=re.escape(f"transformers cannot load {tmp_path} in float32 on cpu (")):
            TransformersModel(tmp_path, device="cpu")

    def test_a_precision_that_does_not_exist(self) -> None:
        with pytest.raises(InputError, match="in float33 on cpu"):
            TransformersModel(FOLDER, device="cpu", dtype="float33")

    @pytest.mark.parametrize("wrong", [{"batch": 0}, {"top_k": -1}, {"top_p": 0.0}, {"top_p": 1.1}, {"min_p": -0.1}])
    def test_settings_out_of_range(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(InputError, match=f"{next(iter(wrong))}.* got .*{next(iter(wrong.values()))}"):
            TransformersModel(FOLDER, **wrong)

    @pytest.mark.parametrize("wrong", [0.9, 2.5, float("nan")])
    def test_a_penalty_that_is_none(self, wrong: float) -> None:
        with pytest.raises(InputError, match="repeat_penalty must be between 1 and 2, got"):
            TransformersModel(FOLDER, repeat_penalty=wrong)

    @pytest.mark.parametrize("missing", ["torch", "transformers"])
    def test_a_library_that_is_not_installed(self, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
        monkeypatch.setitem(sys.modules, missing, None)
        with pytest.raises(InputError, match=re.escape("run `pip install 'gape[hf]'`")):
            TransformersModel(FOLDER)
