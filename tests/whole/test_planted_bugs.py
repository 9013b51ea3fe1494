"""Privacy bugs, planted one by one: each must be caught, by `gape audit` or by a test that is named here.

A test that is named is called as it stands: without the bug, where it must pass, and with it, where it must fail.
"""

import logging
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parts
from gape.audit import PlanAudit, audit_plan, audit_run
from gape.core.errors import BudgetError, PrivacyError, RunError
from gape.core.types import Counts, NoisyVotes, Points
from gape.evolution.plan import Plan
from gape.generators.topic_survey import NearestTopic, TopicSurvey
from gape.modalities.rows import survey
from gape.privacy import accounting, release
from gape.privacy.ledger import Account, Budget, Ledger
from gape.privacy.noise import Noise, SecureNoise, SeededNoise
from gape.voting import electorate as voting_electorate
from gape.voting.electorate import LocalElectorate
from gape.voting.nearest import nearest_votes
from gape.voting.several import several_nearest
from modalities.mixed import test_labelled
from privacy import test_ledger, test_noise, test_release
from voting import test_electorate
from whole.test_crash import exact_counts, secrets_found

ROUNDS = 4
EVOLVE, PLAN = sys.modules["gape.evolution.evolve"], sys.modules["gape.evolution.plan"]


def plan(**changes: Any) -> Plan:
    return Plan(**({"epsilon": 4.0, "delta": 1e-5, "rounds": ROUNDS, "samples": 1} | changes))


def attacked(claim: Plan, trials: int = 1_000, **parts_of_it: Any) -> PlanAudit:
    return audit_plan(claim, np.random.default_rng(7), trials=trials, **parts_of_it)


def failed(found: PlanAudit) -> set[str]:
    return {check.name for check in found.checks if not check.passed}


def caught_by(test: Callable[..., None], *arguments: Any) -> bool:
    """Whether a test fails, whatever it fails with."""
    try:
        test(*arguments)
    except (Exception, pytest.fail.Exception):  # noqa: BLE001  (a test fails by any of them)
        return True
    return False


@contextmanager
def planted(target: Any, name: str, bug: Any) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, name, bug)
        yield


@pytest.fixture(scope="module")
def sound() -> PlanAudit:
    """The audit of the code as it is; every bug is planted into this."""
    return attacked(plan(), 2_000)


def test_without_a_bug_nothing_is_found(sound: PlanAudit) -> None:
    assert sound.passed, sound


# 1. Noise without the factor sqrt T.


def test_noise_of_one_round_for_all_rounds_is_found_by_the_attack() -> None:
    def for_one_round(epsilon: float, delta: float, rounds: int, **options: Any) -> float:
        return accounting.noise_scale(epsilon, delta, 1, **options)

    with planted(PLAN, "noise_scale", for_one_round):
        wrong = plan()
    assert wrong.sigma < 0.51 * plan().sigma
    found = attacked(wrong, 4_000)
    assert not found.bounded
    assert "THE CLAIM IS FALSE" in found.text()
    assert failed(found) == {"accounts"}
    with closing(Ledger(":memory:", Budget(4.0, 1e-5))) as ledger, pytest.raises(BudgetError):
        ledger.require("run", wrong.releases)


# 2. Sensitivity 1 where neighbours replace a record.


def test_a_missing_factor_of_root_two_is_found_by_the_attack() -> None:
    """The whole accounting is wrong here, ledger included: only what is seen from outside can tell."""
    with planted(accounting, "_unit_shifts", lambda neighbours, votes_per_unit: votes_per_unit):
        wrong = plan()
        found = attacked(wrong, 8_000)
    assert wrong.sigma == pytest.approx(plan().sigma / 2**0.5, rel=1e-3)
    assert not found.bounded
    assert failed(found) == {"votes", "answers"}
    assert "moves 2 counts" in next(check.finding for check in found.checks if check.name == "votes")


# 3. Exact counts that get out: in the result, on disk, in a state, in an error, in a log.


@dataclass(frozen=True)
class NoNoise(SecureNoise):
    def add(self, counts: Counts, sigma: float, turn: int) -> NoisyVotes:
        return counts.copy()


def test_counts_released_as_they_are_are_found_by_the_attack() -> None:
    found = attacked(plan(), noise=NoNoise())
    assert not found.bounded
    assert "law" in failed(found)
    named = test_release.test_the_release_is_noisy_charged_and_stored
    assert not caught_by(named)
    with planted(release, "SecureNoise", NoNoise):
        assert caught_by(named)


def run_with_disk(folder: Path) -> None:
    with closing(Ledger(folder / "ledger", parts.BUDGET)) as ledger:
        parts.small_run(folder / "run", ledger, noise=SecureNoise())


def test_counts_on_disk_are_found_by_the_search_for_secrets(tmp_path: Path) -> None:
    checked = release._checked

    def kept(counts: Counts, bins: int) -> Counts:
        with (tmp_path / "bug" / "run" / "internal" / "debug.log").open("a") as log:
            log.write(f"{counts.tolist()}\n")
        return checked(counts, bins)

    for name in ("sound", "bug"):
        (tmp_path / name).mkdir()
    run_with_disk(tmp_path / "sound")
    assert secrets_found(tmp_path / "sound") == []
    with planted(release, "_checked", kept):
        run_with_disk(tmp_path / "bug")
    assert "exact counts in debug.log" in secrets_found(tmp_path / "bug")


def test_counts_in_a_state_are_found_on_disk_and_in_the_books(tmp_path: Path) -> None:
    def unprotected(electorate: LocalElectorate, points: Points, *rest: Any, **options: Any) -> Counts:
        release.release_votes(electorate, points, *rest, **options)  # charged as it should be
        return nearest_votes(parts.private_points(), points)

    with planted(EVOLVE, "release_votes", unprotected):
        run_with_disk(tmp_path)
    assert "exact counts" in secrets_found(tmp_path)
    found = audit_run(tmp_path / "run", tmp_path / "ledger")
    assert [check.name for check in found.checks if not check.passed] == ["votes"]


def test_counts_in_an_error_are_found_by_the_test_of_errors() -> None:
    def talkative(counts: Counts, bins: int) -> Counts:
        raise PrivacyError(f"counts {counts.tolist()} cannot be")

    named, bad = test_release.test_counts_that_cannot_be_are_refused_without_being_shown, test_release.EXACT[:3]
    assert not caught_by(named, bad)
    with planted(release, "_checked", talkative):
        assert caught_by(named, bad)


def said_by_a_run(folder: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> list[bool]:
    """Whether what a run logs or prints has the exact counts of each round in it."""
    folder.mkdir()
    caplog.clear()
    with caplog.at_level(logging.DEBUG):
        run_with_disk(folder)
    printed = capfd.readouterr()
    words = "".join((caplog.text + printed.out + printed.err).split())
    return ["".join(str(counts.tolist()).split())[1:-1] in words.replace("[", "") for counts in exact_counts(folder)]


def test_counts_in_a_log_are_found(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    checked = release._checked

    def logged(counts: Counts, bins: int) -> Counts:
        logging.getLogger("gape").debug("counts %s", counts.tolist())
        return checked(counts, bins)

    assert said_by_a_run(tmp_path / "sound", caplog, capfd) == [False, False]
    with planted(release, "_checked", logged):
        assert said_by_a_run(tmp_path / "bug", caplog, capfd) == [True, True]


# 4. A second draw for a round that was released.


def forgets(self: Ledger, run: str, turn: int, candidates: str) -> None:
    """Plant for `Ledger.stored`."""


def charges_anew(self: Ledger, run: str, turn: int, candidates: str, *rest: Any, **options: Any) -> NoisyVotes:
    """Plant for `Ledger.charge`: the earlier draw is struck out."""
    self._database.execute("DELETE FROM releases WHERE run = ? AND round = ?", (run, turn))
    return CHARGE(self, run, turn, candidates, *rest, **options)


CHARGE = Ledger.charge


def test_a_ledger_that_forgets_cannot_be_charged_twice() -> None:
    bank, electorate = test_release.account(), test_release.FixedElectorate()
    votes = release.release_votes(electorate, test_release.CANDIDATES, 1, test_release.RELEASE, bank)
    with planted(Ledger, "stored", forgets), pytest.raises(RunError, match="UNIQUE constraint failed"):
        release.release_votes(electorate, test_release.CANDIDATES, 1, test_release.RELEASE, bank)
    again = release.release_votes(electorate, test_release.CANDIDATES, 1, test_release.RELEASE, bank)
    assert np.array_equal(again, votes)


def test_a_second_draw_that_replaces_the_first_is_found_by_the_audit_and_by_tests() -> None:
    by_tests = [
        test_release.test_a_round_that_was_paid_for_is_not_drawn_again,
        test_ledger.test_a_round_is_charged_once_and_later_votes_for_it_are_dropped,
    ]
    assert not any(map(caught_by, by_tests))
    with planted(Ledger, "stored", forgets), planted(Ledger, "charge", charges_anew):
        assert all(map(caught_by, by_tests))
        assert failed(attacked(plan())) == {"drawn once"}


def test_a_second_draw_after_a_resume_is_found_in_the_books(tmp_path: Path) -> None:
    run_with_disk(tmp_path)
    assert audit_run(tmp_path / "run", tmp_path / "ledger").passed
    with closing(Ledger(tmp_path / "ledger")) as ledger:
        (name,) = {row[0] for row in ledger._database.execute("SELECT run FROM releases")}
        with planted(Ledger, "stored", forgets), planted(Ledger, "charge", charges_anew):
            points = np.zeros((parts.PLAN.candidates, 2), dtype=np.float32)
            electorate = LocalElectorate(parts.private_points())
            release.release_votes(electorate, points, 1, parts.PLAN.release, Account(ledger, name))
    found = audit_run(tmp_path / "run", tmp_path / "ledger")
    assert [check.name for check in found.checks if not check.passed] == ["votes"]


# 5. Noise in floating point.


@dataclass(frozen=True)
class FloatNoise(SecureNoise):
    def add(self, counts: Counts, sigma: float, turn: int) -> Any:
        return counts + np.random.default_rng().normal(0, sigma, len(counts))


@dataclass(frozen=True)
class RoundedNoise(SecureNoise):
    def add(self, counts: Counts, sigma: float, turn: int) -> NoisyVotes:
        return counts + np.rint(np.random.default_rng().normal(0, sigma, len(counts))).astype(np.int64)


def test_floating_point_noise_is_found_by_its_type() -> None:
    assert "whole numbers" in failed(attacked(plan(), noise=FloatNoise()))


def test_rounded_floating_point_noise_is_found_at_a_small_scale() -> None:
    """At the plan's scale its law cannot be told from the discrete one; at 0.5 it can."""
    found = attacked(plan(epsilon=0.5), noise=RoundedNoise())
    assert failed(found) == {"not rounded"}
    named = test_noise.test_noise_follows_the_discrete_gaussian_law
    assert not caught_by(named, SecureNoise(), 0.3)
    assert caught_by(named, RoundedNoise(), 0.3)


# 6. Noise from a source that can be repeated.


@dataclass(frozen=True)
class SecretlySeeded(SecureNoise):
    def add(self, counts: Counts, sigma: float, turn: int) -> NoisyVotes:
        return SeededNoise(1).add(counts, sigma, turn)


def test_a_seed_in_a_real_run_is_found_in_the_books_and_stated(tmp_path: Path) -> None:
    with closing(Ledger(tmp_path / "ledger", parts.BUDGET)) as ledger:
        _, statement = parts.small_run(tmp_path / "run", ledger, noise=SeededNoise(1))
    assert not statement.private
    found = audit_run(tmp_path / "run", tmp_path / "ledger")
    assert [check.name for check in found.checks if not check.passed] == ["source", "budget", "statement"]
    assert "secure source" in failed(attacked(plan(), noise=SeededNoise(1)))


def test_a_seed_that_calls_itself_secure_is_found_by_the_audit_and_by_a_test() -> None:
    with planted(release, "SecureNoise", SecretlySeeded):
        found = attacked(plan())
    assert "fresh" in failed(found)
    named = test_noise.test_secure_noise_is_fresh_every_time_and_in_every_bin
    assert not caught_by(named)
    with planted(test_noise, "SecureNoise", SecretlySeeded):
        assert caught_by(named)


def draws_by_itself(noise: Noise) -> bool:
    """Whether noise does without the generators of Python and numpy, however well these are seeded."""

    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("a generator that can be repeated was asked for noise")

    with pytest.MonkeyPatch.context() as patch:
        for name in ("default_rng", "Generator", "RandomState", "PCG64", "normal", "standard_normal"):
            patch.setattr(np.random, name, refused)
        for name in ("Random", "gauss", "normalvariate", "random"):
            patch.setattr(random, name, refused)
        try:
            noise.add(np.zeros(50, dtype=np.int64), 7.0, 1)
        except AssertionError:
            return False
    return True


@dataclass(frozen=True)
class WellSeeded(SecureNoise):
    """Follows the law, is new every time, and is still no secret to who learns the state of its generator."""

    def add(self, counts: Counts, sigma: float, turn: int) -> NoisyVotes:
        fresh = int(np.random.default_rng().integers(2**31))
        return SeededNoise(fresh).add(counts, sigma, turn)


def test_a_generator_with_a_random_seed_is_found_by_where_it_draws_from() -> None:
    """No audit from outside can: what it draws looks right in every respect."""
    assert attacked(plan(), noise=WellSeeded()).passed
    assert draws_by_itself(SecureNoise())
    assert not draws_by_itself(WellSeeded())


# 7. A unit that casts more votes than are accounted for.


class EveryRecordSpeaks(LocalElectorate):
    """Counts all records of a user, and says that a user has `votes_per_unit` votes."""

    def count(self, candidates: Points, turn: int) -> Counts:
        return nearest_votes(self._private, candidates)


def all_speak(self: Any, turn: int, most: int) -> tuple[Any, Any]:
    """Plant for `_Units.speakers`: every record is heard, and coincident votes still count once."""
    owners = np.repeat(np.arange(len(self._sizes)), self._sizes)
    return self._rows, owners


@pytest.mark.parametrize("votes_per_unit", [1, 2])
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_more_votes_than_accounted_for_are_found_by_the_audit(votes_per_unit: int, neighbours: str) -> None:
    claim = plan(votes_per_unit=votes_per_unit, neighbours=neighbours, rounds=1)
    found = attacked(claim, make=EveryRecordSpeaks)
    assert failed(found) == {"votes"}
    assert f"the accounting assumes {claim.release.unit_shifts} counts by 1" in found.checks[1].finding
    with planted(voting_electorate._Units, "speakers", all_speak):
        assert failed(attacked(claim)) == {"votes", "answers"}


def test_more_votes_than_accounted_for_are_found_by_the_tests_of_electorates() -> None:
    by_tests = [
        test_electorate.test_a_user_speaks_through_its_records_in_turn,
        test_electorate.test_a_user_with_a_thousand_records_weighs_as_much_as_a_user_with_one,
    ]
    assert not any(map(caught_by, by_tests))
    with planted(voting_electorate._Units, "speakers", all_speak):
        assert all(map(caught_by, by_tests))


@pytest.mark.parametrize("votes_per_unit", [1, 2])
def test_votes_of_a_user_for_each_of_its_labels_are_found_by_the_test_of_strict_columns(
    tmp_path: Path, votes_per_unit: int
) -> None:
    schema = tmp_path / "reviews.toml"
    schema.write_text(test_labelled.SCHEMA)
    test = test_labelled.test_a_user_casts_its_votes_once_however_many_values_its_rows_have
    assert not caught_by(test, schema, votes_per_unit)
    with planted(LocalElectorate, "count", each_label_apart):
        assert caught_by(test, schema, votes_per_unit)


def each_label_apart(self: LocalElectorate, candidates: Points, turn: int) -> Counts:
    """Plant for `LocalElectorate.count`: a user casts its votes once for the records of each label."""
    assert self._units is not None
    speakers, owners = self._units.speakers(turn, most=100)
    marks = self._private[:, -len(test_labelled.STARS) :].argmax(axis=1)[speakers]
    heard = [
        speakers[(owners == owner) & (marks == mark)][: self.votes_per_unit]
        for owner in np.unique(owners)
        for mark in np.unique(marks)
    ]
    return nearest_votes(self._private[np.concatenate(heard)], candidates)


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_more_candidates_than_a_record_may_vote_for_are_found_by_the_audit(neighbours: str) -> None:
    def one_more(private: Any, candidates: Points, count: int, rows: Any = None) -> Any:
        return several_nearest(private, candidates, count + 1, rows)

    claim = plan(votes_per_unit=4, votes_per_record=4, neighbours=neighbours, rounds=1)
    assert attacked(claim).passed
    with planted(voting_electorate, "several_nearest", one_more):
        assert "votes" in failed(attacked(claim))


def test_votes_of_a_user_that_coincide_and_count_twice_are_found_by_the_audit() -> None:
    class Uncounted(LocalElectorate):
        def count(self, candidates: Points, turn: int) -> Counts:
            assert self._units is not None
            speakers, _ = self._units.speakers(turn, self.votes_per_unit)
            return nearest_votes(self._private[speakers], candidates)

    claim = plan(votes_per_unit=2, rounds=1)
    found = attacked(claim, make=Uncounted)
    assert failed(found) == {"votes"}
    assert "by at most 2" in found.checks[1].finding


# 8. A survey whose answers weigh more than are accounted for, or that is charged for less.


def surveyed(**changes: Any) -> Plan:
    return plan(**({"rounds": 1, "answers": (2, 1, 4)} | changes))


def test_without_a_bug_nothing_is_found_in_a_survey() -> None:
    assert attacked(surveyed()).passed
    assert attacked(surveyed(neighbours="add_remove", rounds=0)).passed


def test_noise_for_fewer_answers_is_found_by_the_attack() -> None:
    with planted(Plan, "counted", 2):
        wrong = surveyed(rounds=0, answers=(12, 20))
    found = attacked(wrong, 2_000)
    assert not found.bounded
    assert failed(found) == {"accounts"}


def test_a_survey_that_is_not_charged_is_found_by_the_audit() -> None:
    charge = Ledger.charge

    def cheaper(self: Ledger, run: str, turn: int, known_as: str, made: Any, *rest: Any, **options: Any) -> NoisyVotes:
        less = accounting.Release(made.sigma, made.neighbours, 1)
        return charge(self, run, turn, known_as, less, *rest, **options)

    with planted(Ledger, "charge", cheaper):
        assert failed(attacked(surveyed())) == {"charged"}


def test_answers_without_noise_are_found_by_the_audit() -> None:
    with_noise = release._with_noise

    def exact_answers(counts: Counts, turn: int, *rest: Any) -> NoisyVotes:
        return counts if turn <= 0 else with_noise(counts, turn, *rest)

    with planted(release, "_with_noise", exact_answers):
        found = attacked(surveyed())
    assert not found.bounded
    assert {"law", "charged"} <= failed(found)


def test_a_question_counted_in_two_bins_is_found_by_the_audit() -> None:
    tally = survey.Questions.tally

    def twice(self: survey.Questions, encoded: Any) -> Counts:
        counts = tally(self, encoded)
        return counts + np.roll(counts, 1)

    with planted(survey.Questions, "tally", twice):
        assert "answers" in failed(attacked(plan(rounds=1)))


def test_a_text_counted_for_two_topics_is_found_by_the_audit() -> None:
    tally = NearestTopic.tally

    def twice(self: NearestTopic, encoded: Any) -> Counts:
        counts = tally(self, encoded)
        return counts + np.roll(counts, 1)

    with planted(NearestTopic, "tally", twice):
        assert "answers" in failed(attacked(plan(rounds=1)))


def test_a_topic_asked_for_more_often_than_planned_is_found_by_the_release_step() -> None:
    asked = TopicSurvey.questions

    def more(self: TopicSurvey, answers: Any, sigma: float, most: int) -> NearestTopic:
        return asked(self, answers, sigma, most + 1)

    with planted(TopicSurvey, "questions", more), pytest.raises(PrivacyError, match="questions are asked"):
        attacked(plan(rounds=1))


def test_more_questions_than_planned_are_found_by_the_release_step() -> None:
    asked = survey.TableSurvey.questions

    def more(self: survey.TableSurvey, answers: Any, sigma: float) -> survey.Questions:
        questions = asked(self, answers, sigma)
        return survey.Questions(questions.schema, questions.asked * 2)

    with planted(survey.TableSurvey, "questions", more), pytest.raises(PrivacyError, match="questions are asked"):
        attacked(plan(rounds=1))


def test_a_class_asked_about_more_often_than_planned_is_found_by_the_release_step() -> None:
    asked = survey.TableSurvey._about_the_class

    def more(self: survey.TableSurvey, columns: Any) -> Any:
        for question in asked(self, columns):
            yield replace(question, times=question.times + 1)

    with (
        planted(survey.TableSurvey, "_about_the_class", more),
        pytest.raises(PrivacyError, match="questions are asked"),
    ):
        attacked(plan(rounds=1))


def test_a_record_counted_for_two_kinds_is_found_by_the_audit() -> None:
    answers = survey.Question.answers

    def shifted(self: survey.Question, cells: Any) -> Any:
        own = answers(self, cells)
        return np.concatenate([own, own]) if len(self.columns) == 3 else own

    with planted(survey.Question, "answers", shifted):
        assert "answers" in failed(attacked(plan(rounds=1)))
