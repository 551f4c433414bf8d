"""Fetch sessions of another incarnation, with another isolation or version, and events while progress is noted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from purgatorio.broker.metadata.controller import InSyncProposal
from purgatorio.broker.replica.partition import Partition
from purgatorio.protocol.errors import ErrorCode
from tests.broker.api.test_fetch_sessions import Client, records, told
from tests.broker.replica.fetching.test_read_committed import write
from tests.broker.replica.harness import Harness, topic


@pytest.fixture
def broker() -> Harness:
    """Broker 1, which leads orders-0 and payments-0 alone."""
    harness = Harness()
    harness.set_topics(topic(replicas=(1,)), topic("payments", replicas=(1,)))
    return harness


def test_another_incarnation_of_a_follower_cannot_use_its_session(broker: Harness) -> None:
    broker.set_topics(topic(partition_epoch=1))
    earlier = Client(broker, version=16, replica=2)
    earlier.fetch(("orders", 0, 0))
    broker.brokers[2] = replace(broker.brokers[2], broker_epoch=7)
    broker.set_topics(topic(partition_epoch=2))
    later = Client(broker, version=16, replica=2)
    later.replica_epoch = 7
    response = later.fetch(session=(earlier.session_id, 1))
    assert (response.error_code, response.session_id) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    assert later.fetch(("orders", 0, 0)).session_id not in (0, earlier.session_id)


def test_a_session_that_no_longer_reads_committed_only_is_told_what_is_open(broker: Harness) -> None:
    client = Client(broker)
    assert records(client.fetch(("orders", 0, 0), isolation_level=1)) == {"orders-0": 0}
    write(broker)  # of a transaction that stays open
    assert records(client.fetch(isolation_level=1)).get("orders-0", 0) == 0
    assert records(client.send(isolation_level=0, max_wait_ms=500).only) == {"orders-0": 1}


def test_a_session_of_a_version_without_kip_392_is_no_longer_served_by_a_follower(broker: Harness) -> None:
    broker.set_topics(topic(leader=2))
    client = Client(broker)
    assert told(client.fetch(("orders", 0, 0)))["orders-0"].error_code == ErrorCode.NONE
    client.version = 10
    (data,) = told(client.send(max_wait_ms=500).only).values()
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# --- a follower's progress ---


class Meanwhile(list[tuple[Partition, InSyncProposal]]):
    """Proposals; with the first one something happens."""

    def __init__(self, event: Callable[[], None]) -> None:
        super().__init__()
        self._event = event

    def append(self, proposal: tuple[Partition, InSyncProposal]) -> None:
        super().append(proposal)
        if len(self) == 1:
            self._event()


def proposed(broker: Harness) -> list[str]:
    return [str(partition.tp) for partition, _ in broker.proposals]


def test_a_partition_that_changes_while_progress_is_noted_is_noted_with_the_next_request(broker: Harness) -> None:
    """Broker 2 leaves the ISR of payments-0, which was noted already, while orders-0 is."""
    broker.set_topics(topic(isr=(1, 3)), topic("payments"))
    shrunk = topic("payments", isr=(1, 3), partition_epoch=1)
    broker.proposals = Meanwhile(lambda: broker.set_topics(topic(isr=(1, 3)), shrunk))
    follower = Client(broker, version=16, replica=2)
    follower.fetch(("payments", 0, 0), ("orders", 0, 0), fields={"log_start_offset": 0})
    assert proposed(broker) == ["orders-0"]
    follower.fetch()
    assert proposed(broker) == ["orders-0", "payments-0"]


def test_a_follower_that_is_not_in_sync_is_noted_with_each_request_until_it_is(broker: Harness) -> None:
    registration = broker.brokers[2]
    broker.brokers[2] = replace(registration, fenced=True)
    broker.set_topics(topic(isr=(1, 3)))
    follower = Client(broker, version=16, replica=2)
    follower.fetch(("orders", 0, 0))
    assert proposed(broker) == []
    broker.brokers[2] = registration
    broker.set_topics(topic(isr=(1, 3)))
    follower.fetch()
    assert proposed(broker) == ["orders-0"]
    session = broker.fetch_sessions.find(follower.session_id)
    assert session is not None
    assert [str(fetch.tp) for fetch in session.to_note] == ["orders-0"]
    broker.set_topics(topic(partition_epoch=1))
    follower.fetch()
    assert not session.to_note, "a request costs nothing for what is in sync"
