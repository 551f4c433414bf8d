"""Look-ups of timestamps in what only the tier has."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import list_offsets
from purgatorio.broker.causes.kinds import REMOTE_LIST_OFFSETS
from purgatorio.broker.causes.words import in_words
from purgatorio.broker.tier.store import NotThere, Unavailable
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.api.harness import Replies, context
from tests.broker.replica.harness import topic
from tests.broker.replica.tiered import ORDERS, TIERED, Tiered, record_batch, tiered

START_MS = 1_700_000_000_000


def ask(broker: Tiered, timestamp_ms: int, *, version: int = 11, timeout_ms: int = 0) -> Replies:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp_ms)
    topics = [ListOffsetsTopic(name="orders", partitions=[wanted])]
    replies = Replies()
    request = ListOffsetsRequest(topics=topics, timeout_ms=timeout_ms)
    list_offsets.handle(broker.replicas, context(ApiKey.LIST_OFFSETS, version), request, replies)
    return replies


def answer(replies: Replies) -> Any:
    return replies.only.topics[0].partitions[0]


async def found(broker: Tiered, timestamp_ms: int) -> tuple[int, int, int]:
    replies = ask(broker, timestamp_ms)
    await broker.turns()
    said = answer(replies)
    return said.error_code, said.offset, said.timestamp


def waiting(broker: Tiered) -> list[str]:
    return [in_words(each.causes) for each in broker.purgatories.of(REMOTE_LIST_OFFSETS).operations()]


@pytest.mark.parametrize(("after_ms", "offset"), [(-5, 0), (0, 0), (1, 1), (1000, 1), (3000, 3), (3001, 4), (5500, 6)])
async def test_a_timestamp_is_found_in_the_tier_or_behind_it_in_memory(after_ms: int, offset: int) -> None:
    async with tiered() as broker:
        assert await found(broker, START_MS + after_ms) == (ErrorCode.NONE, offset, START_MS + 1000 * offset)


async def test_a_broker_whose_lease_has_run_out_answers_at_once() -> None:
    async with tiered() as broker:
        broker.store.gate.clear()
        replies = ask(broker, START_MS)
        broker.may_lead = False
        broker.replicas.lease_lost()
        assert answer(replies).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_timestamp_behind_all_records_is_minus_1_and_no_error() -> None:
    async with tiered() as broker:
        assert await found(broker, START_MS + 6001) == (ErrorCode.NONE, -1, -1)
        assert broker.store.calls == [], "the descriptions say that the tier has none"


async def test_a_look_up_goes_on_past_a_segment_whose_highest_timestamp_is_of_a_deleted_record() -> None:
    """Apache Kafka stops there, and answers -1 for records that exist (tiered.md)."""
    async with tiered(copies=False) as broker:
        for at_ms in (9_000, 0, 1_000, 8_000, 2_000, 0, 0):
            broker.produce(acks=1, records=record_batch(START_MS + at_ms))
        await broker.copy()
        log = broker.partition().log
        log.advance_log_start(1)
        assert log.local_start_offset == 4
        assert await found(broker, START_MS + 5_000) == (ErrorCode.NONE, 3, START_MS + 8_000)


async def test_it_waits_in_a_purgatory_of_its_own_and_says_what_for() -> None:
    async with tiered() as broker:
        broker.store.gate.clear()
        replies = ask(broker, START_MS)
        await broker.turns()
        assert (replies.said, waiting(broker)) == (
            [],
            ["offset for 2023-11-14 22:13:20 UTC waits for the look-up in orders-0 [0, 4) in the memory store"],
        )
        broker.store.gate.set()
        await broker.turns()
        assert answer(replies).offset == 0


@pytest.mark.parametrize(("timeout_ms", "waits_ms"), [(700, 700), (0, 30_000)])
async def test_at_the_deadline_it_is_timed_out(timeout_ms: int, waits_ms: int) -> None:
    async with tiered() as broker:
        broker.store.gate.clear()
        replies = ask(broker, START_MS, timeout_ms=timeout_ms)
        broker.advance_ms(waits_ms - 1)
        assert not replies.said
        broker.advance_ms(1)
        assert (answer(replies).error_code, answer(replies).offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)


async def test_what_cannot_be_read_is_an_error_and_not_minus_1() -> None:
    async with tiered() as broker:
        broker.store.troubles["get"] = [NotThere("it is gone")]
        assert await found(broker, START_MS) == (ErrorCode.UNKNOWN_SERVER_ERROR, -1, -1)


async def test_a_lost_leadership_answers_at_once() -> None:
    async with tiered() as broker:
        broker.store.gate.clear()
        replies = ask(broker, START_MS)
        broker.set_topics(topic(leader=2, leader_epoch=1, replicas=(1, 2), partition_epoch=1, **TIERED))
        assert answer(replies).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_broker_that_stops_answers_what_waits() -> None:
    async with tiered() as broker:
        broker.store.gate.clear()
        replies = ask(broker, START_MS)
        broker.purgatories.of(REMOTE_LIST_OFFSETS).shutdown()
        assert answer(replies).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_new_leader_waits_until_it_knows_what_the_tier_has() -> None:
    async with tiered() as broker:
        broker.partition().remote = None
        broker.store.troubles["list"] = [Unavailable("503")]
        replies = ask(broker, START_MS)
        await broker.tiering.round()
        assert waiting(broker)[0].endswith("[0, 4) in the memory store (503)")
        await broker.tiering.round()
        await broker.turns()
        assert answer(replies).offset == 0


async def test_the_special_timestamps_of_the_tier() -> None:
    async with tiered() as broker:
        words = (list_offsets.EARLIEST, list_offsets.EARLIEST_LOCAL, list_offsets.LATEST_TIERED)
        pending = list_offsets.EARLIEST_PENDING_UPLOAD
        assert [answer(ask(broker, word)).offset for word in (*words, pending)] == [0, 4, 5, 6]
        assert [answer(ask(broker, word)).leader_epoch for word in (*words, pending)] == [0, 0, 0, 0]
        broker.partition().remote = None
        assert answer(ask(broker, pending)).offset == -1, "it does not know what the tier has"


async def test_no_upload_is_pending_where_no_record_is() -> None:
    async with tiered() as broker:
        broker.partition().log.advance_log_start(7)
        said = answer(ask(broker, list_offsets.EARLIEST_PENDING_UPLOAD))
        assert (said.error_code, said.offset, said.leader_epoch) == (ErrorCode.NONE, -1, -1)


async def test_nothing_is_copied_yet() -> None:
    async with tiered(copies=False) as broker:
        broker.fill(1)
        await broker.tiering.round()
        latest, pending = (answer(ask(broker, word)) for word in (list_offsets.LATEST_TIERED, -6))
        assert (latest.offset, latest.leader_epoch, pending.offset) == (-1, -1, 0)
        assert broker.partition(ORDERS).log.copied_to == 0
