"""A share session names partitions once, forgets those that are not wanted, and counts its requests."""

from __future__ import annotations

from purgatorio.client.share import ACCEPT, MAX_EPOCH, Acknowledgement, AcquiringSession, share_heartbeat
from purgatorio.protocol.messages.share_fetch import INITIAL_EPOCH, ShareFetchRequest

A, B = (bytes(16), 0), (bytes(16), 1)


def named(request: ShareFetchRequest) -> list[int]:
    return [part.partition_index for topic in request.topics for part in topic.partitions]


def test_a_session_names_what_is_new_or_acknowledged_and_forgets_the_rest() -> None:
    session = AcquiringSession("g", "m")
    first = session.fetch([A, B], {}, max_wait_ms=5, max_records=7)
    assert (first.share_session_epoch, named(first), first.batch_size) == (INITIAL_EPOCH, [0, 1], 7)
    session.went_on()
    second = session.fetch([B], {B: [Acknowledgement(5, 9), Acknowledgement(1, 3, (2,))]}, max_wait_ms=5, max_records=7)
    assert (second.share_session_epoch, named(second)) == (1, [1])
    assert [each.partitions for each in second.forgotten_topics_data] == [[0]]
    batches = second.topics[0].partitions[0].acknowledgement_batches
    assert [(each.first_offset, each.last_offset, each.acknowledge_types) for each in batches] == [
        (1, 3, [2]),
        (5, 9, [ACCEPT]),
    ]
    assert named(session.fetch([B], {}, max_wait_ms=5, max_records=7)) == []
    session.begin_anew()
    assert named(session.fetch([B], {}, max_wait_ms=5, max_records=7)) == [1]


def test_an_acknowledgement_alone_names_only_its_records() -> None:
    session = AcquiringSession("g", "m", epoch=MAX_EPOCH)
    request = session.acknowledge({A: [Acknowledgement(0, 0)]})
    assert request.share_session_epoch == MAX_EPOCH
    assert [each.partition_index for each in request.topics[0].partitions] == [0]
    session.went_on()
    assert session.epoch == 1


def test_a_heartbeat_gives_topics_only_when_it_is_told_to() -> None:
    assert share_heartbeat("g", "m", 0, ["orders"]).subscribed_topic_names == ["orders"]
    assert share_heartbeat("g", "m", 3).subscribed_topic_names is None
