"""The protocol: who may fail when, what is refused, what the server gets to see."""

import copy
import itertools
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from distributed.federated.devices import STEPS, TERMS, InMemory, exact, make_devices, records
from gape.core.errors import InputError, PrivacyError, ServiceError
from gape.core.types import Points
from gape.distributed.federated import Device, FederatedElectorate, Granted, Terms
from gape.distributed.federated.aggregation import Session
from gape.distributed.federated.device import pair_mask
from gape.distributed.federated.masking import Words
from gape.distributed.federated.messages import Ballot, Call, Deal, Opening, Poll, Reply, Request, Roster, Tally
from gape.voting.electorate import LocalElectorate
from gape.voting.nearest import nearest_votes

CANDIDATES: Points = np.random.default_rng(8).normal(size=(7, 2)).astype(np.float32)
SMALL = exact(replace(TERMS, devices=4, colluders=0))  # threshold 3


def check_fates(terms: Terms, folder: Path, fates: tuple[str | None, ...]) -> None:
    """Devices fail at the step that their fate names, or never: the sum is that of all ballots sent, or refused."""
    devices = make_devices(terms, folder)
    ends = dict(zip(devices, fates, strict=True))
    failing = {(address, step) for address, fate in ends.items() if fate for step in STEPS[STEPS.index(fate) :]}
    electorate = FederatedElectorate(terms, InMemory(devices, failing))
    voted = [place for place, fate in enumerate(fates) if fate in {None, "tally"}]
    if fates.count(None) < terms.threshold:
        with pytest.raises(ServiceError, match=rf"terms need {terms.threshold}; nothing was opened"):
            electorate.noisy_count(CANDIDATES, 1, 0.0)
        return
    votes = electorate.noisy_count(CANDIDATES, 1, 0.0)
    private = records(terms.devices)
    assert np.array_equal(votes, nearest_votes(np.stack([private[place][0] for place in voted]), CANDIDATES))
    assert electorate.attendance[0].counted == tuple(100 + place for place in voted)


def test_the_sum_is_exact_whoever_fails_when(tmp_path: Path) -> None:
    for place, fates in enumerate(itertools.combinations_with_replacement((None, *STEPS), 4)):
        check_fates(SMALL, tmp_path, fates[::-1] if place % 2 else fates)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from((None, None, None, None, *STEPS)), min_size=11, max_size=11))
def test_the_sum_is_exact_with_more_devices(tmp_path: Path, fates: list[str | None]) -> None:
    check_fates(exact(replace(TERMS, devices=11, dropouts=3, colluders=2)), tmp_path, tuple(fates))


@pytest.mark.parametrize("votes", [1, 2, 4])
def test_a_device_votes_as_one_user_of_a_local_electorate(votes: int, tmp_path: Path) -> None:
    terms = exact(replace(TERMS, votes_per_unit=votes))
    private = records(5, each=3)
    electorate = FederatedElectorate(terms, InMemory(make_devices(terms, tmp_path, private)))
    users = np.repeat(np.arange(5), 3)
    central = LocalElectorate(np.concatenate(private), units=list(map(int, users)), votes_per_unit=votes)
    for turn in (1, 2, 3, 4):
        expected = central.count(CANDIDATES, turn)
        assert np.array_equal(electorate.noisy_count(CANDIDATES, turn, 0.0), expected)


def test_a_device_without_records_takes_part_and_votes_for_nobody(tmp_path: Path) -> None:
    terms = exact(TERMS)
    devices = make_devices(terms, tmp_path)
    devices[100] = Device(terms, None, Granted(tmp_path / "none.sqlite", terms))
    votes = FederatedElectorate(terms, InMemory(devices)).noisy_count(CANDIDATES, 1, 0.0)
    assert votes.sum() == 4


def test_the_noise_of_the_sum_is_that_of_those_who_voted(tmp_path: Path) -> None:
    candidates = np.random.default_rng(2).normal(size=(2000, 2)).astype(np.float32)
    for sigma in (6.0, 3.0):  # the second needs units finer than a vote
        terms = replace(TERMS, sigma=sigma)
        folder = tmp_path / str(sigma)
        folder.mkdir()
        electorate = FederatedElectorate(terms, InMemory(make_devices(terms, folder), {(101, "poll")}))
        noisy = electorate.noisy_count(candidates, 1, sigma)
        own = np.stack([points[0] for place, points in enumerate(records(5)) if place != 1])
        noise = noisy - nearest_votes(own, candidates)
        (attendance,) = electorate.attendance
        assert attendance.noise == terms.noise_with(4) > sigma
        rounding = 1 / 12 if terms.units > 1 else 0.0
        squares = float((noise**2).sum()) / (attendance.noise**2 + rounding)
        assert stats.chi2(2000).ppf(1e-5) < squares < stats.chi2(2000).ppf(1 - 1e-5)
    assert terms.units > 1


def test_what_the_server_receives_is_uniform(tmp_path: Path) -> None:
    candidates = np.random.default_rng(2).normal(size=(4000, 2)).astype(np.float32)
    channel = InMemory(make_devices(TERMS, tmp_path))
    FederatedElectorate(TERMS, channel).noisy_count(candidates, 1, TERMS.sigma)
    ballots = [np.frombuffer(reply.words, dtype="<u4") for reply in channel.replies if isinstance(reply, Ballot)]
    assert len(ballots) == 5
    for words in (np.concatenate(ballots), ballots[0] - ballots[1]):
        uniform(words)


def uniform(words: Words) -> None:
    for shift in (0, 8, 16, 24):
        observed = np.bincount((words >> np.uint32(shift)) & np.uint32(255), minlength=256)
        assert stats.chisquare(observed).pvalue > 1e-9
    assert stats.kstest(words / 2.0**32, "uniform").pvalue > 1e-9


class Steps:
    """A session by hand, to tamper with."""

    def __init__(self, terms: Terms, folder: Path, candidates: Points = CANDIDATES) -> None:
        self.terms = terms
        self.devices = dict(enumerate(make_devices(terms, folder).values(), start=1))
        self.session = Session(terms, secrets.token_bytes(16), 1, candidates)

    def answers(self, requests: Mapping[int, Request]) -> dict[int, Reply]:
        return {seat: self.devices[seat].answer(request) for seat, request in requests.items()}

    def rosters(self) -> dict[int, Roster]:
        return self.session.roster(self.answers(self.session.call(self.devices)))

    def polls(self) -> dict[int, Poll]:
        return self.session.poll(self.answers(self.rosters()))

    def tallies(self) -> dict[int, Tally]:
        return self.session.tally(self.answers(self.polls()))


@pytest.fixture
def steps(tmp_path: Path) -> Steps:
    return Steps(TERMS, tmp_path)


def test_a_late_ballot_stays_masked_though_its_pair_masks_are_known(tmp_path: Path) -> None:
    candidates = np.random.default_rng(2).normal(size=(4000, 2)).astype(np.float32)
    steps = Steps(TERMS, tmp_path, candidates)
    ballots = steps.answers(steps.polls())
    late = ballots.pop(2)  # it arrives after the server has given it up
    assert isinstance(late, Ballot)
    key = copy.deepcopy(steps.devices[2].remembered)
    steps.session.result(steps.answers(steps.session.tally(ballots)))
    words = np.frombuffer(late.words, dtype="<u4").astype(np.uint32)
    for seat, public in zip(key.seats, key.masking_keys, strict=True):
        if seat != 2:
            words -= pair_mask(key.masking, public, key.roster, 2, seat, len(words))
    uniform(words)


def test_a_device_gives_one_share_for_each_other_and_never_two(steps: Steps) -> None:
    tallies = steps.tallies()
    forgetful = copy.deepcopy(steps.devices[1].remembered)
    opening = steps.devices[1].answer(tallies[1])
    assert isinstance(opening, Opening)
    assert sorted(opening.seed_seats + opening.key_seats) == [1, 2, 3, 4, 5]
    other = replace(tallies[1], seats=[1, 2, 3, 4])
    for again in (tallies[1], other):
        with pytest.raises(PrivacyError, match="does not follow"):
            steps.devices[1].answer(again)
    # As if two processes of the device answered at once, or a backup of its memory had been put back.
    steps.devices[1].remembered = forgetful
    with pytest.raises(PrivacyError, match="has opened it"):
        steps.devices[1].answer(other)


def test_a_device_votes_once_in_a_session(steps: Steps) -> None:
    polls = steps.polls()
    forgetful = copy.deepcopy(steps.devices[1].remembered)
    steps.devices[1].answer(polls[1])
    steps.devices[1].remembered = forgetful
    with pytest.raises(PrivacyError, match="already voted"):
        steps.devices[1].answer(polls[1])


def test_requests_of_another_session_or_out_of_order_are_refused(steps: Steps) -> None:
    rosters = steps.rosters()
    device = steps.devices[1]
    early: list[Request] = [Poll(rosters[1].session, [1], [b""], 1, 2, bytes(8)), Tally(rosters[1].session, [1])]
    for request in (*early, replace(rosters[1], session=b"another")):
        remembered = copy.deepcopy(device.remembered)
        with pytest.raises(PrivacyError, match="does not follow"):
            device.answer(request)
        with pytest.raises(PrivacyError, match="does not follow"):  # nor can the right one come after it
            device.answer(rosters[1])
        device.remembered = remembered
    device.answer(rosters[1])
    with pytest.raises(PrivacyError, match="does not follow"):
        device.answer(rosters[1])


def test_a_new_session_ends_the_old_one(steps: Steps) -> None:
    tallies = steps.tallies()
    device = steps.devices[1]
    device.answer(Call(b"a new session", TERMS.digest, 1, 1))
    with pytest.raises(PrivacyError, match="does not follow"):
        device.answer(tallies[1])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (Call(b"s", replace(TERMS, sigma=5.0).digest, 1, 1), "other terms"),
        (Call(b"s", replace(TERMS, federation="other").digest, 1, 1), "other terms"),
        (Call(b"s", TERMS.digest, 0, 1), "rounds 1 to 3"),
        (Call(b"s", TERMS.digest, 4, 1), "rounds 1 to 3"),
        (Call(b"", TERMS.digest, 1, 1), "rounds 1 to 3"),
    ],
)
def test_a_device_takes_part_under_its_own_terms_only(call: Call, words: str, steps: Steps) -> None:
    with pytest.raises(PrivacyError, match=words):
        steps.devices[1].answer(call)


TAMPERED: dict[str, tuple[Callable[[Roster], Roster], str]] = {
    "too few": (lambda r: part_of(r, slice(3)), "the terms need 4 to 5"),
    "too many": (
        lambda r: Roster(r.session, [*r.seats, 6], *([*column, secrets.token_bytes(32)] for column in keys(r))),
        "the terms need 4 to 5",
    ),
    "a seat twice": (lambda r: replace(r, seats=[1, 1, 3, 4, 5]), "every seat once"),
    "a key missing": (lambda r: replace(r, masking=r.masking[:-1]), "every seat once"),
    "one key for two": (lambda r: replace(r, masking=[*r.masking[:4], r.masking[3]]), "occurs twice"),
    "its own key changed": (lambda r: replace(r, masking=[bytes(32), *r.masking[1:]]), "keys that this device sent"),
    "itself left out": (lambda r: part_of(r, slice(1, 5)), "keys that this device sent"),
}


def keys(roster: Roster) -> tuple[list[bytes], list[bytes], list[bytes]]:
    return roster.sealing, roster.masking, roster.commitments


def part_of(roster: Roster, part: slice) -> Roster:
    return Roster(roster.session, roster.seats[part], *(column[part] for column in keys(roster)))


@pytest.mark.parametrize("how", TAMPERED)
def test_a_roster_that_was_tampered_with_is_refused(how: str, steps: Steps) -> None:
    tamper, words = TAMPERED[how]
    with pytest.raises(PrivacyError, match=words):
        steps.devices[1].answer(tamper(steps.rosters()[1]))


def test_devices_that_were_shown_different_rosters_share_no_key(steps: Steps) -> None:
    rosters = steps.rosters()
    rosters[2] = replace(rosters[2], masking=[*rosters[2].masking[:4], secrets.token_bytes(32)])
    polls = steps.session.poll(steps.answers(rosters))
    for seat in (1, 2):
        with pytest.raises(PrivacyError, match="made for another roster"):
            steps.devices[seat].answer(polls[seat])


def test_sealed_shares_cannot_be_passed_off_as_anothers(steps: Steps) -> None:
    poll = steps.polls()[1]
    swapped = replace(poll, sealed=[poll.sealed[place] for place in (0, 2, 1, 3, 4)])
    with pytest.raises(PrivacyError, match="do not open"):
        steps.devices[1].answer(swapped)


@pytest.mark.parametrize("seats", [[1, 2, 3], [2, 3, 4, 5], [1, 1, 2, 3], [1, 2, 3, 6]])
def test_a_device_opens_no_sum_of_too_few_nor_of_strangers(seats: list[int], steps: Steps) -> None:
    tallies = steps.tallies()
    with pytest.raises(PrivacyError, match=r"need 4; nothing is opened|not in this session"):
        steps.devices[1].answer(replace(tallies[1], seats=seats))


def test_a_wrong_share_gives_an_error_and_no_wrong_sum(steps: Steps) -> None:
    openings = steps.answers(steps.tallies())
    good = openings[1]
    assert isinstance(good, Opening)
    for wrong in (bytes(33), b"\xff" * 33):
        openings[1] = replace(good, seed_shares=[wrong, *good.seed_shares[1:]])
        with pytest.raises(PrivacyError, match="do not fit what it advertised"):
            steps.session.result(openings)
    openings[1] = good
    assert steps.session.result(openings).shape == (7,)


def test_a_wrong_share_of_a_key_gives_an_error_too(steps: Steps) -> None:
    ballots = steps.answers(steps.polls())
    del ballots[5]
    openings = steps.answers(steps.session.tally(ballots))
    good = openings[1]
    assert isinstance(good, Opening)
    assert good.key_seats == [5]
    openings[1] = replace(good, key_shares=[bytes(33)])
    with pytest.raises(PrivacyError, match="shares of seat 5 do not fit"):
        steps.session.result(openings)


def test_replies_that_make_no_sense_count_as_dropouts(steps: Steps) -> None:
    session = steps.session
    adverts = steps.answers(session.call(steps.devices))
    rosters = session.roster(adverts | {9: adverts[1]})
    assert list(rosters) == [1, 2, 3, 4, 5]
    deals = steps.answers(rosters)
    mute = deals[5]
    assert isinstance(mute, Deal)
    for nonsense in (adverts[5], replace(mute, session=b"old"), replace(mute, seat=4), replace(mute, sealed=[])):
        polls = session.poll(deals | {5: nonsense})
        assert list(polls) == [1, 2, 3, 4]
    ballots = steps.answers(polls)
    short = ballots[1]
    assert isinstance(short, Ballot)
    with pytest.raises(ServiceError, match="3 of 5 devices sent ballots"):
        session.tally(ballots | {1: replace(short, words=short.words[:-4])})
    openings = steps.answers(session.tally(ballots))
    with pytest.raises(ServiceError, match="3 of 5 devices opened the sum"):
        session.result({seat: openings[seat] for seat in (1, 2, 3)})


def test_more_devices_than_the_terms_know_are_refused(steps: Steps) -> None:
    with pytest.raises(InputError, match="6 devices are connected"):
        steps.session.call(range(1, 7))


def test_candidates_of_another_width_are_refused(steps: Steps) -> None:
    poll = steps.polls()[1]
    with pytest.raises(InputError, match="2 dimensions"):
        steps.devices[1].answer(replace(poll, rows=2, columns=7))


def test_embeddings_of_another_width_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="3 dimensions and the terms say 2"):
        Device(TERMS, np.zeros((1, 3), dtype=np.float32), Granted(tmp_path / "granted", TERMS))


def test_a_device_sends_no_more_ballots_than_its_terms_grant_even_after_a_restart(tmp_path: Path) -> None:
    for attempt in range(4):
        devices = make_devices(TERMS, tmp_path)  # restarted: only their files know what they gave
        electorate = FederatedElectorate(TERMS, InMemory(devices))
        if attempt < TERMS.rounds + TERMS.spare:
            electorate.noisy_count(CANDIDATES, 1, TERMS.sigma)
        else:
            with pytest.raises(ServiceError, match="0 of 5 devices sent ballots"):
                electorate.noisy_count(CANDIDATES, 1, TERMS.sigma)
    granted = tmp_path / "0.sqlite"
    assert granted.stat().st_mode & 0o777 == 0o600
    with pytest.raises(PrivacyError, match="3 ballots that its terms grant"):
        Granted(granted, TERMS).ballot(b"one more")
    with pytest.raises(PrivacyError, match="under other terms") as refused:
        Granted(granted, replace(TERMS, sigma=9.0)).ballot(b"one more")
    assert str(tmp_path) not in str(refused.value)  # Flower sends it to the server
