"""The leader epoch cache, and the truncation by it that KIP-101 and KIP-279 describe."""

from __future__ import annotations

import random

import pytest

from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.epochs import LeaderEpochs
from purgatorio.broker.log.log import Log
from tests.batches import batches_of
from tests.histories import seeds


def epochs_of(*entries: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs()
    for epoch, start in entries:
        epochs.assign(epoch, start)
    return epochs


def test_an_empty_cache_knows_nothing() -> None:
    epochs = LeaderEpochs()
    assert epochs.latest_epoch == -1
    assert epochs.end_offset_for(0, 10) == (-1, -1)
    assert epochs.epoch_at(3) == -1


def test_an_epoch_is_assigned_once() -> None:
    epochs = epochs_of((1, 10), (1, 20))
    assert epochs.entries == [(1, 10)]
    epochs.assign(-1, 30)
    assert epochs.entries == [(1, 10)]


def test_an_epoch_without_records_is_replaced_by_the_next() -> None:
    assert epochs_of((1, 10), (2, 10), (4, 10)).entries == [(4, 10)]


def test_a_newer_epoch_removes_entries_that_contradict_it() -> None:
    assert epochs_of((1, 0), (3, 10), (5, 20), (4, 15)).entries == [(1, 0), (3, 10), (4, 15)]
    assert epochs_of((1, 0), (3, 10), (5, 20), (6, 8)).entries == [(1, 0), (6, 8)]
    assert epochs_of((1, 10), (1, 4)).entries == [(1, 4)]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 5)),
        (1, (1, 11)),
        (2, (2, 14)),
        (3, (2, 14)),
        (4, (4, 30)),
        (5, (-1, -1)),
    ],
)
def test_the_end_of_an_epoch_is_the_start_of_the_next_or_of_the_one_before_it(
    asked: int, answer: tuple[int, int]
) -> None:
    """KIP-279: an epoch that this log skipped is answered with the largest one below it, and its end."""
    assert epochs_of((1, 5), (2, 11), (4, 14)).end_offset_for(asked, 30) == answer


def test_the_epoch_of_an_offset_is_that_of_the_leader_that_wrote_it() -> None:
    epochs = epochs_of((1, 5), (2, 11))
    assert [epochs.epoch_at(offset) for offset in (4, 5, 10, 11, 99)] == [-1, 1, 1, 2, 2]


def test_truncating_the_end_forgets_epochs_that_start_there_or_later() -> None:
    epochs = epochs_of((1, 0), (2, 10), (3, 20))
    epochs.truncate_from_end(20)
    assert epochs.entries == [(1, 0), (2, 10)]
    assert epochs.latest_epoch == 2
    epochs.truncate_from_end(11)
    assert epochs.entries == [(1, 0), (2, 10)]
    epochs.truncate_from_end(0)
    assert epochs.latest_epoch == -1


def test_truncating_the_start_keeps_the_epoch_that_holds_it() -> None:
    epochs = epochs_of((1, 0), (2, 10), (3, 20))
    epochs.truncate_from_start(15)
    assert epochs.entries == [(2, 15), (3, 20)]
    epochs.truncate_from_start(20)
    assert epochs.entries == [(3, 20)]
    epochs.truncate_from_start(5)
    assert epochs.entries == [(3, 20)]


class Replica:
    """A log whose records are (epoch, value), to follow or to lead."""

    def __init__(self) -> None:
        self.log = Log(LogConfig())
        self.batches: dict[int, bytes] = {}

    def lead(self, batch: bytes, epoch: int) -> None:
        self.log.append_as_leader(batch, leader_epoch=epoch, wall_ms=0)

    def content(self) -> list[bytes]:
        return batches_of(self.log.read(0, max_bytes=1 << 30, end_offset=self.log.log_end_offset).parts)

    def fetch_from(self, leader: Replica) -> None:
        """Fetch until nothing diverges and nothing is missing, as followers do since KIP-595."""
        for _ in range(100):
            own, epoch = self.log, self.log.epochs.latest_epoch
            found, end_offset = leader.log.end_offset_for_epoch(epoch)
            if epoch >= 0 and (found != epoch or end_offset < own.log_end_offset):
                _, own_end = own.end_offset_for_epoch(found)
                own.truncate_to(min(own_end, end_offset) if own_end >= 0 else end_offset)
                continue
            if own.log_end_offset >= leader.log.log_end_offset:
                return
            read = leader.log.read(own.log_end_offset, max_bytes=200, end_offset=leader.log.log_end_offset)
            own.append_as_follower(b"".join(read.parts))
        raise AssertionError("the follower does not converge")


def test_a_follower_that_missed_a_short_leadership_drops_only_what_diverges(batch_of) -> None:
    """KIP-101, scenario 2: both logs have a record at offset 1, of different epochs."""
    a, b = Replica(), Replica()
    a.lead(batch_of(b"m1"), 1)
    b.fetch_from(a)
    a.lead(batch_of(b"only on a"), 1)
    b.lead(batch_of(b"m3"), 2)
    a.fetch_from(b)
    assert a.content() == b.content()
    assert a.log.epochs.entries == b.log.epochs.entries == [(1, 0), (2, 1)]


def test_fast_leader_changes_leave_no_divergence(batch_of) -> None:
    """KIP-279: several epochs on either side that the other side never saw."""
    a, b = Replica(), Replica()
    a.lead(batch_of(b"0"), 0)
    b.fetch_from(a)
    a.lead(batch_of(b"a1"), 1)
    b.lead(batch_of(b"b2"), 2)
    a.lead(batch_of(b"a3"), 3)
    b.lead(batch_of(b"b4"), 4)
    a.fetch_from(b)
    assert a.content() == b.content()


@pytest.mark.parametrize("seed", seeds(30, quick=3))
def test_replicas_converge_after_any_history_of_leaders(seed: int, batch_of) -> None:
    rng = random.Random(seed)
    replicas = [Replica() for _ in range(3)]
    for epoch in range(rng.randrange(2, 12)):
        leader = rng.choice(replicas)
        leader.log.epochs.assign(epoch, leader.log.log_end_offset)
        for _ in range(rng.randrange(4)):
            leader.lead(batch_of(*[b"%d" % epoch] * rng.randrange(1, 4)), epoch)
        for follower in replicas:
            if follower is not leader and rng.random() < 0.5:
                follower.fetch_from(leader)
    leader = replicas[0]
    leader.lead(batch_of(b"last"), 100)
    for follower in replicas[1:]:
        follower.fetch_from(leader)
        assert follower.content() == leader.content()
        assert follower.log.epochs.entries == leader.log.epochs.entries
