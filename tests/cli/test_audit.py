import json
from contextlib import closing
from pathlib import Path

import pytest

import parts
from command import gape, one_line_error
from gape.privacy.accounting import noise_scale
from gape.privacy.ledger import Ledger
from gape.privacy.noise import SecureNoise, SeededNoise

CLAIM = ["audit", "--epsilon", "8", "--delta", "1e-5", "--rounds", "1", "--trials", "2000"]


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    with closing(Ledger(tmp_path / "ledger", parts.BUDGET)) as ledger:
        parts.small_run(tmp_path / "run", ledger, noise=SecureNoise())
    return tmp_path


def test_a_claim_is_attacked_in_a_table_and_a_sentence() -> None:
    result = gape(*CLAIM)
    assert result.exit_code == 0
    assert f"sigma {noise_scale(8, 1e-5, 1):g}" in result.stdout
    for words in ("2,000 trials", "claimed", "for any mechanism", "if noise is Gaussian", "Nothing found"):
        assert words in result.stdout
    assert "FAILED" not in result.stdout


def test_the_findings_as_json() -> None:
    result = gape(*CLAIM, "--neighbours", "add_remove", "--votes-per-unit", "2", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["books"] is None
    attack = found["attack"]
    assert attack["passed"] is True
    assert attack["claim"]["neighbours"] == "add_remove"
    assert attack["claim"]["sigma"] == noise_scale(8, 1e-5, 1, neighbours="add_remove", votes_per_unit=2)
    assert 0 < attack["bounds"]["any_mechanism"] < 8
    assert attack["bounds"]["gaussian_attack"]["outside"] + attack["bounds"]["gaussian_attack"]["inside"] == 1000
    assert {check["name"] for check in attack["checks"]} >= {"accounts", "votes", "law", "fresh", "drawn once"}


def test_the_books_of_a_run(finished: Path) -> None:
    result = gape("audit", finished / "run", "--ledger", finished / "ledger")
    assert result.exit_code == 0
    assert "The books are in order" in result.stdout
    assert "The attack" not in result.stdout


def test_a_run_may_be_attacked_too(finished: Path) -> None:
    result = gape("audit", finished / "run", "--ledger", finished / "ledger", "--trials", "1000", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["books"]["passed"] is True
    assert found["attack"]["claim"]["epsilon"] == parts.PLAN.epsilon


def test_books_that_disagree_end_with_code_1(tmp_path: Path) -> None:
    with closing(Ledger(tmp_path / "ledger", parts.BUDGET)) as ledger:
        parts.small_run(tmp_path / "run", ledger, noise=SeededNoise(1))
    for form in ([], ["--json"]):
        result = gape("audit", tmp_path / "run", "--ledger", tmp_path / "ledger", *form)
        assert result.exit_code == 1
        assert "THE BOOKS ARE NOT IN ORDER" in result.stdout
        assert not result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit"], "an audit needs a claimed epsilon, got none"),
        (["audit", "--epsilon", "1"], "an audit needs a claimed delta, got none"),
        (["audit", "--epsilon", "inf", "--delta", "1e-5"], "epsilon must be finite for an audit, got inf"),
        (["audit", "--epsilon", "0", "--delta", "1e-5"], "epsilon must be positive"),
        (["audit", "--epsilon", "1", "--delta", "1e-5", "--trials", "7"], "trials must be at least 1000"),
        (["audit", "nowhere"], "not the folder of a run"),
        (["audit", "nowhere", "--epsilon", "1", "--rounds", "2"], "epsilon, rounds cannot be combined with a run"),
    ],
)
def test_what_cannot_be_audited_is_one_line(arguments: list[str], message: str) -> None:
    assert message in one_line_error(gape(*arguments))
