"""What every electorate promises."""

import numpy as np

from gape.core.protocols import Electorate, Respondents
from gape.generators.topic_survey import NearestTopic


class ElectorateContract:
    """Inherit, and make one with at least 20 units."""

    def make(self) -> Electorate:
        raise AssertionError("inherit and make one")

    def candidates(self, count: int = 7) -> np.ndarray:
        rng = np.random.default_rng(9)
        return rng.normal(size=(count, self.make().dimension)).astype(np.float32)

    def test_counts_are_one_int64_per_candidate_and_not_negative(self) -> None:
        counts = self.make().count(self.candidates(), 1)
        assert counts.shape == (7,)
        assert counts.dtype == np.int64
        assert (counts >= 0).all()
        assert counts.sum() > 0

    def test_counting_is_repeatable(self) -> None:
        electorate = self.make()
        first, again = (electorate.count(self.candidates(), 3) for _ in range(2))
        assert np.array_equal(first, again)
        assert np.array_equal(first, self.make().count(self.candidates(), 3))

    def test_one_candidate_gets_every_vote(self) -> None:
        counts = self.make().count(self.candidates(1), 1)
        assert counts.shape == (1,)
        assert counts[0] >= 1

    def test_each_unit_answers_a_survey_with_one_record(self) -> None:
        electorate = self.make()
        if not isinstance(electorate, Respondents):
            return  # and a survey is refused (tests/privacy)
        topics = NearestTopic(self.candidates(), 3)
        counts = electorate.answer(topics, 0)
        assert counts.dtype == np.int64
        once, *others = counts.reshape(3, 7)
        assert all(np.array_equal(once, other) for other in others)
        everyone = electorate.answer(NearestTopic(self.candidates(1), 1), 0)
        assert once.sum() == everyone[0] >= 12
        assert np.array_equal(counts, electorate.answer(topics, 0))

    def test_the_fingerprint_depends_on_the_salt_only(self) -> None:
        first, again = (self.make().fingerprint(b"a" * 32) for _ in range(2))
        assert first == again
        assert first != self.make().fingerprint(b"b" * 32)

    def test_it_says_what_it_protects(self) -> None:
        electorate = self.make()
        assert electorate.unit
        assert electorate.votes_per_unit >= 1
        assert electorate.dimension >= 1
