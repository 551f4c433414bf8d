"""Proposals for ISRs reach the metadata store in batches; refused ones are withdrawn."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.metadata.controller import TopicSettings
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metadata.store import StoreContended
from purgatorio.broker.replica import alter_partition_manager
from purgatorio.broker.replica.alter_partition_manager import AlterPartitionManager
from purgatorio.broker.replica.partition import Partition
from tests.broker.replica.harness import Harness, topic
from tests.logs import capture_logs


class Store:
    """A metadata store that commits or fails when the test says so."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.submitted: list[tuple[Any, Any, Any]] = []

    def submit(self, decide: Any, done: Any, failed: Any = None) -> None:
        self.submitted.append((decide, done, failed))

    def commit(self) -> None:
        decide, done, _ = self.submitted.pop(0)
        self.image, result = decide(self.image)
        done(result)

    def fail(self) -> None:
        _, _, failed = self.submitted.pop(0)
        failed(StoreContended("others were faster"))


class Proposing:
    """Broker 1, which leads three partitions as the only in-sync replica."""

    def __init__(self) -> None:
        self.broker = Harness()
        self.broker.set_topics(topic(isr=(1,), partitions=3))
        self.store = Store(ClusterImage(0, "test", 1, self.broker.brokers, {"orders": topic(isr=(1,), partitions=3)}))
        self.manager = AlterPartitionManager(
            self.store,  # type: ignore[arg-type]
            settings=TopicSettings(),
            observer=self.broker.observed,
        )
        self.manager.withdraw = self.broker.replicas.withdraw

    @property
    def partitions(self) -> list[Partition]:
        return list(self.broker.replicas.partitions.values())

    def propose(self, partition: Partition) -> None:
        """Let broker 2 catch up, and submit the leader's proposal."""
        before = len(self.broker.proposals)
        self.broker.fetch((partition.tp, 0), replica_id=2)
        for proposed in self.broker.proposals[before:]:
            self.manager.propose(*proposed)

    def isr(self, index: int) -> tuple[int, ...]:
        return self.store.image.topics["orders"].partitions[index].isr_ids


@pytest.fixture
def proposing() -> Proposing:
    return Proposing()


def test_a_change_has_a_bounded_number_of_proposals(proposing: Proposing, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that comes back joins the ISRs of thousands of partitions at once."""
    monkeypatch.setattr(alter_partition_manager, "PROPOSALS_PER_CHANGE", 1)
    for partition in proposing.partitions:
        proposing.propose(partition)
    committed = []
    while proposing.store.submitted:
        proposing.store.commit()
        committed.append([proposing.isr(index) for index in range(3)].count((1, 2)))
    assert committed == [1, 2, 3]


def test_proposals_during_a_change_go_into_the_next_one(proposing: Proposing) -> None:
    for partition in proposing.partitions:
        proposing.propose(partition)
    assert len(proposing.store.submitted) == 1
    proposing.store.commit()
    assert [proposing.isr(index) for index in range(3)] == [(1, 2), (1,), (1,)]
    assert len(proposing.store.submitted) == 1
    proposing.store.commit()
    assert [proposing.isr(index) for index in range(3)] == [(1, 2)] * 3
    assert proposing.store.submitted == []
    assert proposing.broker.observed.named("isr_expanded") == [()] * 3


@pytest.mark.parametrize("how", ["refused", "failed"])
def test_a_refused_or_failed_proposal_is_withdrawn_and_may_be_proposed_again(proposing: Proposing, how: str) -> None:
    first = proposing.partitions[0]
    proposing.propose(first)
    if how == "refused":
        newer = topic(isr=(1,), partitions=3, partition_epoch=7)
        proposing.store.image = ClusterImage(1, "test", 1, proposing.broker.brokers, {"orders": newer})
        proposing.store.commit()
    else:
        proposing.store.fail()
    assert first.proposal is None
    assert proposing.isr(0) == (1,)
    assert proposing.broker.observed.named("isr_expanded") == []
    proposing.propose(first)
    assert len(proposing.store.submitted) == 1


def test_the_leaders_log_says_why_the_isr_shrank(proposing: Proposing) -> None:
    """Of the followers that left it, and not of those that were out of it before."""
    first = proposing.partitions[0]
    in_sync = topic(isr=(1, 2), partitions=3, partition_epoch=1)
    proposing.broker.set_topics(in_sync)
    proposing.store.image = ClusterImage(1, "test", 1, proposing.broker.brokers, {"orders": in_sync})
    proposing.broker.follow((2, 0))
    proposing.broker.produce(acks=1)
    for _ in range(3):
        proposing.broker.advance_ms(10_001)
        proposing.broker.follow((2, 0))
    proposal = first.propose_to_drop_laggards(proposing.broker.clock.now_ms(), 30_000)
    assert proposal is not None
    with capture_logs() as logged:
        proposing.manager.propose(first, proposal)
        proposing.store.commit()
    (line,) = logged
    assert line["event"] == "ISR shrank"
    assert line["partitions"] == "orders-0 [1]"
    assert line["reason"].startswith("orders-0: broker 2 is at 0 of 1 and fetched for another 30003 ms")
    assert "broker 3" not in line["reason"]
    assert proposing.broker.observed.named("isr_shrunk") == [()]
