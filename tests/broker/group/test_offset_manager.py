"""Commits take effect when they are committed, whether or not their client was told so."""

from __future__ import annotations

from purgatorio.broker.coordinator.coordinator_log import RETRY_MS
from purgatorio.broker.group.offsets import CommittedOffset, GroupOffsets
from purgatorio.protocol.errors import ErrorCode
from tests.broker.group.harness import PARTITION, GroupHarness

TIMEOUT_MS = 5_000


class Commits(GroupHarness):
    """The offsets of group app; broker 2 follows when the test lets it."""

    def __init__(self) -> None:
        super().__init__(replicas=(1, 2))
        self.answers: list[ErrorCode] = []

    def commit(self, *offsets: int, topic: str = "orders") -> None:
        """Commit an offset for each of the first partitions."""
        made = [(topic, nth, CommittedOffset(offset, -1, "", 0)) for nth, offset in enumerate(offsets)]
        self.groups.offsets.commit("app", made, self.answers.append, version=8)

    @property
    def offsets(self) -> GroupOffsets:
        return self.groups.offsets.offsets_of("app")

    @property
    def committed(self) -> list[int]:
        return [each.offset for each in self.offsets.get("orders", {}).values()]

    def replicate(self) -> None:
        self.follow((2, self.partition(PARTITION).log.log_end_offset), tp=PARTITION)


def test_a_commit_over_three_partitions_takes_effect_as_one() -> None:
    broker = Commits()
    broker.commit(7, 8, 9)
    assert (broker.committed, broker.answers) == ([], [])
    broker.replicate()
    assert (broker.committed, broker.answers) == ([7, 8, 9], [ErrorCode.NONE])
    shard = broker.groups.coordinator.shard_of("app")
    assert (shard.offsets.count, shard.offsets.pending_count, broker.groups.commit_count) == (3, 0, 3)
    assert not any(shard.offsets.is_pending("app", "orders", each) for each in range(3))


def test_a_commit_over_three_partitions_is_loaded_as_one() -> None:
    broker = GroupHarness()
    made = [("orders", nth, CommittedOffset(7 + nth, -1, "", 0)) for nth in range(3)]
    broker.groups.offsets.commit("app", made, lambda code: None, version=8)
    broker.elect(1, 1, (1,))
    broker.work()
    loaded = broker.groups.offsets.offsets_of("app")["orders"]
    assert {partition: each.offset for partition, each in loaded.items()} == {0: 7, 1: 8, 2: 9}


def test_a_commit_that_failed_for_its_client_takes_effect_when_it_is_replicated_later() -> None:
    broker = Commits()
    broker.commit(7)
    broker.advance_ms(TIMEOUT_MS + 1)
    assert (broker.answers, broker.committed) == ([ErrorCode.COORDINATOR_NOT_AVAILABLE], [])
    broker.replicate()
    assert broker.committed == [7]
    assert broker.groups.coordinator.shard_of("app").offsets.pending_count == 0


def test_it_is_waited_for_again_and_again() -> None:
    broker = Commits()
    broker.commit(7)
    for _ in range(3):
        broker.advance_ms(TIMEOUT_MS + 1)
        broker.advance_ms(RETRY_MS)
    assert broker.committed == []
    broker.replicate()
    assert broker.committed == [7]


def test_commits_that_failed_take_effect_in_their_order() -> None:
    broker = Commits()
    broker.commit(7)
    broker.advance_ms(TIMEOUT_MS + 1)
    broker.commit(9)
    broker.commit(5, topic="bills")
    broker.advance_ms(TIMEOUT_MS + 1)
    broker.replicate()
    broker.advance_ms(RETRY_MS)
    assert (broker.committed, broker.offsets["bills"][0].offset) == ([9], 5)


def test_a_lost_coordinator_does_not_wait_on() -> None:
    broker = Commits()
    broker.commit(7)
    broker.advance_ms(TIMEOUT_MS + 1)
    lost = broker.groups.coordinator.shard_of("app")
    broker.elect(2, 1)
    broker.work()
    broker.advance_ms(TIMEOUT_MS + RETRY_MS)
    assert (lost.offsets.count, lost.unsure) == (0, [])
    assert broker.produce_purgatory.num_delayed == 0
