from contracts.selector import SelectorContract
from gape.core.protocols import Selector
from gape.selection.kmedoids import KMedoids
from gape.selection.local_search import Gape
from gape.selection.ranking import Ranking
from gape.selection.subsampling import Subsampling


class TestRanking(SelectorContract):
    def make(self) -> Selector:
        return Ranking()


class TestSubsampling(SelectorContract):
    repeats = True

    def make(self) -> Selector:
        return Subsampling()


class TestKMedoids(SelectorContract):
    def make(self) -> Selector:
        return KMedoids()


class TestGape(SelectorContract):
    def make(self) -> Selector:
        return Gape(separation=3.0, threshold=1.0)


class TestGapeWithoutTruncationOrThreshold(SelectorContract):
    def make(self) -> Selector:
        return Gape(separation=float("inf"), threshold=-float("inf"))
