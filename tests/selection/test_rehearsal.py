import math
from typing import Any

import pytest

from gape.selection.bounded_lipschitz import BoundedLipschitz
from gape.selection.local_search import Gape, LocalSearchResult
from gape.selection.ranking import Ranking
from gape.selection.rehearsal import rehearse


@pytest.mark.parametrize(("candidates", "method"), [(100, "float64"), (16_000, "float32")])
@pytest.mark.parametrize("rule", [Gape(math.inf, 1.0, signed=False), Gape(math.inf, 1.0)])
def test_it_goes_the_way_that_the_run_will_go(candidates: int, method: str, rule: Gape) -> None:
    found: list[LocalSearchResult] = []
    rehearse(lambda *given: found.append(rule(*given)) or found[0], candidates).join()  # type: ignore[func-returns-value]
    assert found[0].method.partition(",")[0] == method
    assert found[0].certified


@pytest.mark.parametrize("selector", [Ranking(), BoundedLipschitz(7)])
def test_every_rule_can_be_rehearsed(selector: Any) -> None:
    thread = rehearse(selector, 100)
    thread.join()
    assert thread.daemon
