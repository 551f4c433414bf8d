"""A follower truncates where its log and the leader's last agree, also over several epochs (KIP-101, KIP-279)."""

from __future__ import annotations

import pytest

from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.log import Log
from purgatorio.broker.metadata.image import BrokerIncarnation
from purgatorio.broker.replica.fetching.reader import ReplicaReader
from purgatorio.broker.replica.following.follower import common_end
from purgatorio.broker.replica.partition import Partition
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.fetch import FetchPartition
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.broker.replica.harness import ORDERS, Harness, topic

MAX_ROUNDS = 10

Epochs = tuple[tuple[int, int], ...]


def record(offset: int, epoch: int) -> bytes:
    value = f"{offset} of {epoch}".encode()
    return build_batch([Record(offset, -1, None, value, ())], base_offset=offset, leader_epoch=epoch)


def fill(log: Log, epochs: Epochs, end: int) -> Log:
    """Append records up to `end`; each epoch starts at its offset."""
    for epoch, start in epochs:
        following = [other for _, other in epochs if other > start]
        for offset in range(start, min([*following, end])):
            log.append_as_follower(record(offset, epoch))
    assert log.epochs.entries == [entry for entry in epochs if entry[1] < end]
    return log


def replica(broker_id: int, epochs: Epochs, end: int) -> Partition:
    log = fill(Log(LogConfig()), epochs, end)
    return Partition(ORDERS, bytes(16), BrokerIncarnation(broker_id, broker_id), log)


def records_of(partition: Partition, end: int) -> bytes:
    return b"".join(partition.log.read(0, max_bytes=1_000_000, end_offset=end).parts)


@pytest.mark.parametrize(
    ("follower", "end", "leader", "leader_end", "cut_to"),
    [
        (((1, 0), (3, 20)), 25, ((1, 0), (2, 10)), 15, 10),
        (((1, 0), (3, 5)), 25, ((1, 0), (2, 10)), 15, 5),
        (((1, 0), (2, 4), (4, 6), (5, 8)), 12, ((1, 0), (3, 4), (6, 9)), 12, 4),
        (((1, 0),), 7, ((1, 0), (2, 5)), 6, 5),
        (((2, 0),), 7, ((1, 0), (3, 4)), 6, 0),
    ],
)
def test_two_logs_agree_after_a_few_rounds_and_no_more_is_cut_than_must_be(
    follower: Epochs, end: int, leader: Epochs, leader_end: int, cut_to: int
) -> None:
    """The leader's answer alone does not do: its epoch may end later in its log than in the follower's."""
    follows, leads = replica(2, follower, end), replica(1, leader, leader_end)
    leads.log.epochs.assign(9, leader_end)  # it was elected with these records
    for _ in range(MAX_ROUNDS):
        fetch = FetchPartition(
            fetch_offset=follows.log.log_end_offset, last_fetched_epoch=follows.log.epochs.latest_epoch
        )
        diverging = ReplicaReader._diverging_epoch(leads, fetch)
        if diverging is None:
            break
        follows.truncate_to(common_end(follows, diverging))
    else:
        pytest.fail(f"they do not agree after {MAX_ROUNDS} rounds")
    assert follows.log.log_end_offset == cut_to
    assert records_of(follows, cut_to) == records_of(leads, cut_to)


# --- the epoch that begins with an election ---


def elected(broker: Harness, epochs: Epochs, end: int, leader_epoch: int) -> None:
    """Let broker 1 follow up to `end`, and elect it."""
    broker.set_topics(topic(leader=2, leader_epoch=epochs[-1][0], partition_epoch=1))
    fill(broker.partition().log, epochs, end)
    broker.set_topics(topic(leader=1, leader_epoch=leader_epoch, partition_epoch=2))


def test_an_elected_leader_notes_where_its_epoch_starts_before_it_appends(broker: Harness) -> None:
    elected(broker, ((1, 0), (3, 4)), 6, leader_epoch=5)
    assert broker.partition().log.epochs.entries == [(1, 0), (3, 4), (5, 6)]


def test_a_follower_with_an_epoch_that_the_leader_never_saw_is_told_where_to_cut_although_the_leader_appended_nothing(
    broker: Harness,
) -> None:
    """The follower led in epoch 4, unheard of; without the noted epoch it would have to start from nothing."""
    elected(broker, ((1, 0), (3, 4)), 6, leader_epoch=5)
    data = broker.fetch((ORDERS, 8), replica_id=2, last_fetched_epoch=4, leader_epoch=5).data
    assert data.error_code == ErrorCode.NONE
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (3, 6)


def test_a_leader_that_is_elected_again_notes_the_new_epoch(broker: Harness) -> None:
    elected(broker, ((1, 0),), 2, leader_epoch=2)
    broker.set_topics(topic(leader=1, leader_epoch=3, partition_epoch=3))
    assert broker.partition().log.epochs.entries == [(1, 0), (3, 2)], "epoch 2 has no records"
