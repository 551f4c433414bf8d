"""Leaders delete what has to go of the tier: the log start moves first, then the objects go."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from purgatorio.broker.metadata.image import BrokerIncarnation
from purgatorio.broker.replica.delayed_delete_records import DeleteRecordsResult
from purgatorio.broker.replica.tiering import UNHEARD_MS
from purgatorio.broker.tier.names import DESCRIPTION, LOG
from purgatorio.broker.tier.store import Refused, Unavailable
from purgatorio.protocol.errors import ErrorCode
from tests.broker.replica.harness import topic
from tests.broker.replica.test_delayed_remote_list_offsets import answer, ask
from tests.broker.replica.tiered import ORDERS, TIERED, Tiered, bases, tiered


def starts(broker: Tiered) -> list[int]:
    """The start offsets of the segments in the store; each has both of its objects."""
    names = [key.rpartition("/")[2].partition(".") for key in sorted(broker.store.objects) if "/claims/" not in key]
    assert [f".{end}" for _, _, end in names] == [DESCRIPTION, LOG] * (len(names) // 2)
    return [int(name.partition("-")[0]) for name, _, end in names if f".{end}" == DESCRIPTION]


def configure(broker: Tiered, epoch: int = 1, *, leader: int = 1, replicas: tuple[int, ...] = (1,), **configs: str):
    """Change configs of the topic, and its leader, in another epoch."""
    described = topic(
        leader=leader, leader_epoch=epoch, partition_epoch=epoch, replicas=replicas, **{**TIERED, **configs}
    )
    broker.set_topics(described)


def delete_before(broker: Tiered, offset: int) -> list[DeleteRecordsResult]:
    results: list[DeleteRecordsResult] = []
    broker.replicas.delete_records([(ORDERS, offset)], timeout_ms=1_000, done=results.extend)
    return results


def offset_of(broker: Tiered, timestamp: int) -> int:
    said = answer(ask(broker, timestamp))
    assert said.error_code == ErrorCode.NONE
    return said.offset


async def test_segments_go_by_retention_ms() -> None:
    """Kafka's DeleteSegmentsByRetentionTimeTest."""
    async with tiered() as broker:
        configure(broker, retention_ms="10000", local_retention_ms="10000")
        broker.clock.advance_ms(11_000)  # the records are of the seconds 0 to 6
        await broker.copy()
        assert (broker.partition().log.log_start_offset, starts(broker)) == (0, [0, 2, 4])
        broker.clock.advance_ms(1)
        await broker.copy()
        assert (broker.partition().log.log_start_offset, starts(broker)) == (2, [2, 4])
        broker.clock.advance_ms(3_000)
        await broker.copy()
        assert (broker.partition().log.log_start_offset, starts(broker)) == (4, [4])
        assert broker.fetch((ORDERS, 3)).data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_segments_go_by_retention_bytes() -> None:
    """Kafka's DeleteSegmentsByRetentionSizeTest."""
    async with tiered() as broker:
        size = len(broker.store.objects[broker.store.key(LOG)])
        log = broker.partition().log
        configure(broker, retention_bytes=str(size + log.size_between(6, 7)))
        await broker.copy()
        assert (log.log_start_offset, log.local_start_offset, starts(broker)) == (4, 4, [4])


async def test_segments_before_the_log_start_go() -> None:
    """Kafka's DeleteSegmentsDueToLogStartOffsetBreachTest; the second time the leader is another one."""
    async with tiered() as broker:
        assert [each.low_watermark for each in delete_before(broker, 3)] == [3]
        assert starts(broker) == [0, 2, 4]
        await broker.copy()
        log = broker.partition().log
        assert (log.log_start_offset, log.local_start_offset, starts(broker)) == (3, 4, [2, 4])
        fetched = broker.fetch((ORDERS, 3))
        await broker.turns()
        assert bases(fetched.data) == [3]
        configure(broker)
        assert [each.low_watermark for each in delete_before(broker, 6)] == [6]
        await broker.copy()
        assert (log.log_start_offset, starts(broker)) == (6, [])


async def test_the_log_start_moves_in_all_replicas_in_sync_before_objects_go() -> None:
    async with tiered(replicas=(1, 2), copies=False) as broker:
        broker.fill()
        broker.follow((2, 7))
        await broker.copy()
        results = delete_before(broker, 4)
        await broker.copy()
        assert (broker.partition().log.log_start_offset, starts(broker), results) == (4, [0, 2, 4], [])
        broker.follow((2, 7), log_start_offset=4)
        assert [each.low_watermark for each in results] == [4]
        await broker.copy()
        assert starts(broker) == [4]


async def test_objects_wait_for_eligible_leader_replicas_too() -> None:
    """KIP-966: one that has left the ISR may be elected while too few are in sync."""
    async with tiered(replicas=(1, 2), copies=False) as broker:
        broker.fill()
        broker.follow((2, 7))
        await broker.copy()
        left = topic(replicas=(1, 2), isr=(1,), partition_epoch=1, **TIERED)
        states = tuple(replace(state, elr=(BrokerIncarnation(2, 2),)) for state in left.partitions)
        broker.set_topics(replace(left, partitions=states))
        assert [each.low_watermark for each in delete_before(broker, 4)] == [4]
        await broker.copy()
        assert starts(broker) == [0, 2, 4]
        broker.set_topics(replace(left, partitions=tuple(replace(each, partition_epoch=2) for each in left.partitions)))
        await broker.copy()
        assert starts(broker) == [4]


async def test_a_broker_whose_lease_may_be_over_deletes_nothing() -> None:
    async with tiered() as broker:
        delete_before(broker, 4)
        broker.may_lead = False
        await broker.copy()
        assert starts(broker) == [0, 2, 4]
        broker.may_lead = True
        await broker.copy()
        assert starts(broker) == [4]


async def test_a_follower_deletes_nothing_and_a_leader_nothing_before_it_has_listed() -> None:
    async with tiered() as broker:
        follower = Tiered(broker.store)
        follower.clock.advance_ms(10**9)
        configure(follower, leader=2, replicas=(1, 2), retention_ms="1")
        log = follower.partition().log
        log.append_as_follower(b"".join(broker.partition().log.read(4, max_bytes=10**9, end_offset=7).parts))
        log.commit_to(7)
        await follower.copy()
        assert starts(broker) == [0, 2, 4]
        configure(follower, 2, replicas=(1,), retention_ms="1")
        follower.tiering.retain(follower.partition())
        assert log.log_start_offset < 6


async def test_what_could_not_be_deleted_is_trouble_keeps_no_copy_back_and_goes_in_the_next_round() -> None:
    async with tiered() as broker:
        delete_before(broker, 4)
        broker.fill(2)
        broker.store.troubles["delete"] = [Refused("no"), Unavailable("503")]
        await broker.copy()
        assert broker.tiering.trouble == "503"
        assert starts(broker) == [0, 2, 4, 6]
        await broker.copy()
        assert (broker.tiering.trouble, starts(broker)) == ("", [4, 6])


async def test_a_successor_finishes_what_a_leader_has_begun_to_delete() -> None:
    async with tiered() as broker:
        delete_before(broker, 4)
        broker.store.troubles["delete"] = [None, Unavailable("503"), None, Unavailable("503")]
        await broker.copy()
        assert sorted(key[-4:] for key in broker.store.objects if "/claims/" not in key) == [".log"] * 3 + ["json"]
        configure(broker)
        await broker.copy()
        broker.clock.advance_ms(UNHEARD_MS)
        await broker.copy()
        assert starts(broker) == [4]


async def test_a_read_that_waits_for_a_deleted_segment_is_out_of_range() -> None:
    async with tiered() as broker:
        broker.store.gate.clear()
        fetched = broker.fetch((ORDERS, 1))
        await broker.turns()
        assert not fetched.answered
        delete_before(broker, 4)
        await broker.copy()
        assert fetched.data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        broker.store.gate.set()
        await broker.turns()
        assert broker.tiering.reads.under_way == 0


async def test_a_look_up_that_waits_for_a_deleted_segment_goes_on_behind_it() -> None:
    async with tiered() as broker:
        broker.store.gate.clear()
        replies = ask(broker, 1_700_000_000_000)
        await broker.turns()
        assert replies.said == []
        delete_before(broker, 3)
        await broker.copy()
        broker.store.gate.set()
        await broker.turns()
        said = answer(replies)
        assert (said.error_code, said.offset) == (ErrorCode.NONE, 3)


async def test_a_read_of_a_displaced_segment_goes_on_in_the_one_that_has_its_records() -> None:
    async with tiered() as broker:
        remote = broker.tiering.remote_of(broker.partition())
        broker.store.gate.clear()
        fetched = broker.fetch((ORDERS, 1))
        replies = ask(broker, 1_700_000_001_000)
        await broker.turns()
        first = remote.segments.find(1)
        assert first is not None
        for end in (LOG, DESCRIPTION):
            copy = str(first.name._replace(id="f" * 32))
            broker.store.objects[f"{remote.folder}{copy}{end}"] = broker.store.objects.pop(
                f"{remote.folder}{first.name}{end}"
            )
        remote.is_stale = True
        reads, broker.store.gate = broker.store.gate, asyncio.Event()
        broker.store.gate.set()
        await broker.tiering.round()
        reads.set()
        await broker.turns()
        assert (bases(fetched.data), answer(replies).offset) == ([1], 1)


async def test_the_special_offsets_before_and_behind_deletions_and_a_change_of_the_leader() -> None:
    """Kafka's ListOffsetsTest: −2 the start, −4 where memory begins, −5 the last copied, −6 the first that is not."""
    async with tiered() as broker:

        def offsets() -> tuple[int, ...]:
            return tuple(offset_of(broker, special) for special in (-1, -2, -4, -5, -6))

        assert offsets() == (7, 0, 4, 5, 6)
        delete_before(broker, 3)
        assert offsets() == (7, 3, 4, 5, 6)
        await broker.copy()
        assert offsets() == (7, 3, 4, 5, 6)
        configure(broker)
        assert offsets() == (7, 3, 4, -1, -1), "the new leader has not listed yet"
        await broker.copy()
        assert offsets() == (7, 3, 4, 5, 6)
        delete_before(broker, -1)
        await broker.copy()
        assert starts(broker) == []
        assert offsets() == (7, 7, 7, 5, -1), "the last that was copied stays when it is deleted"


async def test_copies_go_on_after_records_were_deleted_that_were_not_copied() -> None:
    async with tiered(copies=False) as broker:
        broker.fill(3)
        delete_before(broker, 3)
        broker.fill(5)
        await broker.copy()
        log = broker.partition().log
        assert (log.log_start_offset, log.copied_to, starts(broker)) == (3, 7, [3, 5])


async def test_a_topic_that_leaves_the_tier_leaves_nothing_there() -> None:
    """Kafka's DisableRemoteLogOnTopicTest, and EnableRemoteLogOnTopicTest after it (KIP-950)."""
    async with tiered() as broker:
        broker.store.gate.clear()
        fetched = broker.fetch((ORDERS, 0))
        configure(broker, remote_storage_enable="false", remote_log_delete_on_disable="true")
        assert fetched.data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        log = broker.partition().log
        assert (log.log_start_offset, log.local_start_offset) == (4, 4)
        assert tuple(offset_of(broker, special) for special in (-2, -4, -5, -6)) == (4, 4, -1, -1)
        broker.store.troubles["delete"] = [Refused("no")]
        await broker.copy()
        assert broker.tiering.trouble == "no"
        await broker.copy()
        assert starts(broker) == []
        broker.store.calls.clear()
        await broker.copy()
        assert broker.store.calls == []
        configure(broker, 2)
        await broker.copy()
        assert starts(broker) == [4]
        broker.fill(4)
        await broker.copy()
        assert (log.log_start_offset, starts(broker)) == (4, [4, 6, 8])


async def test_a_new_leader_empties_the_tier_of_a_topic_that_has_left_it() -> None:
    async with tiered() as broker:
        configure(broker, remote_storage_enable="false", remote_log_delete_on_disable="true")
        broker.store.troubles["delete"] = [None, None, Unavailable("503"), Unavailable("503")]
        await broker.copy()
        successor = Tiered(broker.store)
        configure(successor, 2, remote_storage_enable="false", remote_log_delete_on_disable="true")
        await successor.copy()
        assert starts(broker) == []


@pytest.mark.parametrize("by", ["ms", "bytes"])
async def test_without_copies_reads_and_retention_go_on_and_local_deletion_moves_the_log_start(by: str) -> None:
    async with tiered() as broker:
        configure(broker, remote_log_copy_disable="true", local_retention_bytes="-2")
        broker.fill(4, first_ms=1_700_000_020_000)
        await broker.copy()
        log = broker.partition().log
        assert (starts(broker), log.copied_to, log.log_end_offset) == ([0, 2, 4], 6, 11)
        fetched = broker.fetch((ORDERS, 0))
        await broker.turns()
        assert bases(fetched.data) == [0, 1]
        broker.clock.advance_ms(31_000)
        limit = {"retention_ms": "10000"} if by == "ms" else {"retention_bytes": "200"}
        configure(broker, 2, remote_log_copy_disable="true", local_retention_bytes="-2", **limit)
        await broker.copy()
        await broker.copy()
        assert (log.log_start_offset, log.local_start_offset, starts(broker)) == (8, 8, [])


async def test_an_active_segment_past_its_retention_is_rolled_copied_and_deleted() -> None:
    """Kafka's RollAndOffloadActiveSegmentTest."""
    async with tiered(copies=False, local_retention_bytes="-2", local_retention_ms="1000") as broker:
        broker.fill(1)
        broker.clock.advance_ms(1_001)
        await broker.copy()
        log = broker.partition().log
        assert (log.local_start_offset, log.active_segment_start_offset, starts(broker)) == (0, 1, [])
        await broker.copy()
        assert (log.log_start_offset, log.local_start_offset, starts(broker)) == (0, 1, [0])
        fetched = broker.fetch((ORDERS, 0))
        await broker.turns()
        assert bases(fetched.data) == [0]
        configure(broker, retention_ms="1000", local_retention_ms="-2")
        await broker.copy()
        assert (log.log_start_offset, log.log_end_offset, starts(broker)) == (1, 1, [])
