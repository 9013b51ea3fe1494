from pathlib import Path

import pytest

from gape.core.errors import InputError, RunError, SpendingError
from gape.runs.folder.layout import Layout
from gape.runs.settings import Settings
from gape.runs.spending import EmbeddingTally, make_purse, refuse_idle_caps


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path)
    made.internal.mkdir()
    return made


def test_a_tally_counts_over_processes_once_the_run_has_a_folder(layout: Layout) -> None:
    first = EmbeddingTally(layout)
    first.begin()
    first.begin()  # another column of the same process
    assert not layout.embedded.exists()
    layout.settings.touch()
    first.add(7)
    second = EmbeddingTally(layout)
    assert (second.times, second.tokens) == (1, 7)
    second.begin()
    assert EmbeddingTally(layout).times == 2
    assert layout.embedded.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["[]", "{}", '{"times": -1, "tokens": 0}', '{"times": true, "tokens": 0}', "{"])
def test_a_tally_that_is_not_one_is_refused(layout: Layout, content: str) -> None:
    layout.embedded.write_text(content)
    with pytest.raises(RunError, match=r"embedded\.json"):
        EmbeddingTally(layout)


def test_a_purse_leaves_what_embeddings_have_not_used() -> None:
    settings = Settings(embedder="openai:e", embedding_price=2.0, max_cost=1.0, max_tokens_total=500_000)
    purse = make_purse(settings, embedded=100_000)
    assert purse.max_tokens_total == 400_000
    assert purse.max_cost == pytest.approx(0.8)
    with pytest.raises(SpendingError, match="the run has used its max_cost of 1; raise it to resume"):
        make_purse(settings.with_values(max_tokens_total=None), embedded=500_000)


def test_a_cap_needs_a_service_and_one_process_that_counts() -> None:
    capped = Settings(max_tokens_total=5)
    with pytest.raises(InputError, match="the generator embedded is not one"):
        refuse_idle_caps(capped)
    with pytest.raises(InputError, match="the embedder minilm is not one"):
        refuse_idle_caps(capped.with_values(generator="openai:m"), writing=False)
    refuse_idle_caps(capped.with_values(embedder="openai:e"))
    with pytest.raises(InputError, match="use engine local"):
        refuse_idle_caps(capped.with_values(embedder="openai:e", engine="ray"))
