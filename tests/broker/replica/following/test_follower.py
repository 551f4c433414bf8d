"""The fetch loop of a follower; the test plays the leader."""

from __future__ import annotations

import asyncio
import random
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from purgatorio.broker.replica.following import follower as follower_module
from purgatorio.broker.replica.following.follower import FetchSettings, FollowerFetcher, FollowerGate, FollowerServices
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.roles import Refollowed
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from purgatorio.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.broker.replica.harness import Harness, topic
from tests.logs import capture_logs

CLOCK = SystemClock()
PATIENCE_SECONDS = 10
LEADER_ID = 2


def batch(offset: int, leader_epoch: int = 0) -> bytes:
    record = Record(offset, 1_700_000_000_000, None, b"value", ())
    return build_batch([record], base_offset=offset, leader_epoch=leader_epoch)


class Leader:
    """A leader that gives prepared answers, then none, and records the fetches."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[FetchRequest] = []
        self.connections = 0
        self.silent = asyncio.Event()
        self.when_asked: Callable[[], None] = lambda: None

    async def connect(self, broker_id: int) -> Leader:
        assert broker_id == LEADER_ID
        self.connections += 1
        return self

    async def request(self, api_key: int, api_version: int, message: Any, *, timeout_ms: int) -> Any:
        if api_key == ApiKey.FETCH:
            self.asked.append(message)
            self.when_asked()
        if not self.answers:
            self.silent.set()
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        pass

    @property
    def offsets_asked(self) -> list[list[int]]:
        """The fetch offsets of each request."""
        return [[p.fetch_offset for t in request.topics for p in t.partitions] for request in self.asked]


def answer(**data: Any) -> FetchResponse:
    """Return a response for orders-0."""
    partition = PartitionData(partition_index=0, aborted_transactions=None, **{"records": b"", **data})
    return FetchResponse(
        responses=[FetchableTopicResponse(topic_id=b"orders".ljust(16, b"\0"), partitions=[partition])]
    )


@pytest.fixture
def follower() -> Harness:
    """Broker 1, which follows broker 2 in orders-0."""
    harness = Harness()
    harness.set_topics(topic(leader=LEADER_ID))
    return harness


def fetcher_of(
    harness: Harness, leader: Leader, gate: FollowerGate | None = None, backoff_ms: int = 1
) -> FollowerFetcher:
    """Return a fetcher that follows nothing yet."""
    services = FollowerServices(
        replicas=harness.replicas,
        connect=leader.connect,
        settings=FetchSettings(backoff_ms=backoff_ms),
        gate=gate or FollowerGate(CLOCK),
        clock=CLOCK,
        rng=random.Random(0),
    )
    return FollowerFetcher(LEADER_ID, services)


async def follow(
    harness: Harness, leader: Leader, *, gate: FollowerGate | None = None, backoff_ms: int = 1
) -> Partition:
    """Run the loop until the leader has no answer left."""
    fetcher = fetcher_of(harness, leader, gate, backoff_ms)
    harness.replicas.followed_log_cut = fetcher.alter
    fetcher.follow(harness.replicas.take_refollowed()[LEADER_ID])
    async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(fetcher.run())
        await leader.silent.wait()
        running.cancel()
    return harness.partition()


async def test_it_fetches_from_its_log_end_with_its_broker_id_and_epoch(follower: Harness) -> None:
    leader = Leader(answer(records=batch(0), high_watermark=0), answer(records=batch(1), high_watermark=1))
    partition = await follow(follower, leader)
    assert leader.offsets_asked == [[0], [1], [2]]
    assert (partition.log.log_end_offset, partition.high_watermark) == (2, 1)
    state = leader.asked[0].replica_state
    assert (state.replica_id, state.replica_epoch) == follower.replicas.incarnation


async def test_the_answer_is_gone_when_the_next_fetch_waits_at_the_leader(follower: Harness) -> None:
    """It may be 10 MiB, and the next one may come late."""
    records = memoryview(bytearray(batch(0)))
    kept = weakref.ref(records)
    leader = Leader(answer(records=records, high_watermark=1))
    del records
    seen: list[bool] = []
    leader.when_asked = lambda: seen.append(kept() is not None)
    partition = await follow(follower, leader)
    assert (partition.log.log_end_offset, seen) == (1, [True, False])


async def ends_of(harness: Harness, records: bytes, at: Callable[[int], None] = lambda end: None) -> list[int]:
    """Fetch these records in one answer; return where the log ended in the turns of the loop, each end once."""
    leader, log, ends = Leader(answer(records=records, high_watermark=1)), harness.partition().log, [0]

    async def watch() -> None:
        while not leader.silent.is_set():
            if log.log_end_offset != ends[-1]:
                ends.append(log.log_end_offset)
                at(ends[-1])
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(watch())
        await follow(harness, leader)
    return ends if ends[-1] == log.log_end_offset else [*ends, log.log_end_offset]


@pytest.fixture
def slow_appends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two batches take more than the share of a turn."""
    monkeypatch.setattr(follower_module, "SLICE_BYTES", 2 * len(batch(0)))
    monkeypatch.setattr(follower_module, "SLICE_BATCHES", 2)
    monkeypatch.setattr(follower_module, "SHARE_SECONDS", -1)


@pytest.mark.usefixtures("slow_appends")
async def test_many_batches_are_appended_in_several_turns_of_the_event_loop(follower: Harness) -> None:
    assert await ends_of(follower, b"".join(map(batch, range(5)))) == [0, 2, 4, 5]


@pytest.mark.usefixtures("slow_appends")
async def test_the_rest_of_an_answer_is_dropped_when_another_broker_leads_meanwhile(follower: Harness) -> None:
    def follow_another(end: int) -> None:
        follower.set_topics(topic(leader=3, leader_epoch=1))

    assert await ends_of(follower, b"".join(map(batch, range(5))), follow_another) == [0, 2]


async def test_few_batches_are_appended_in_one_turn(follower: Harness) -> None:
    assert await ends_of(follower, b"".join(map(batch, range(5)))) == [0, 5]


async def test_kip_101_a_diverging_epoch_truncates_to_the_last_common_offset(follower: Harness) -> None:
    first = answer(records=batch(0) + batch(1) + batch(2), high_watermark=1)
    diverging = answer(diverging_epoch=EpochEndOffset(epoch=0, end_offset=1))
    leader = Leader(first, diverging)
    partition = await follow(follower, leader)
    assert leader.offsets_asked == [[0], [3], [1]]
    assert partition.log.log_end_offset == 1


def offset(at: int) -> ListOffsetsResponse:
    """Return the response to ListOffsets."""
    partition = ListOffsetsPartitionResponse(partition_index=0, offset=at)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[partition])])


async def test_a_log_that_ends_after_the_leaders_is_truncated_to_the_leaders_end(follower: Harness) -> None:
    first = answer(records=batch(0) + batch(1) + batch(2), high_watermark=1)
    leader = Leader(first, answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE), offset(0), offset(2))
    partition = await follow(follower, leader)
    assert leader.offsets_asked == [[0], [3], [2]]
    assert partition.log.log_start_offset == 0


async def test_a_log_that_ends_before_the_leaders_log_start_restarts_there(follower: Harness) -> None:
    leader = Leader(answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE), offset(40), offset(42))
    partition = await follow(follower, leader)
    assert leader.offsets_asked == [[0], [40]]
    assert (partition.log.log_start_offset, partition.high_watermark) == (40, 40)


async def test_a_refused_partition_is_left_out_for_a_while(follower: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower_module, "FIRST_BACKOFF_MS", 450)
    follower.set_topics(topic(leader=LEADER_ID, partitions=2))
    leader = Leader(answer(error_code=ErrorCode.FENCED_LEADER_EPOCH), FetchResponse())
    await follow(follower, leader, backoff_ms=1000 * 3600)
    assert [p.partition for p in leader.asked[1].topics[0].partitions] == [1]
    assert leader.asked[1].max_wait_ms <= 451, "the refused partition is fetched again soon"


async def test_a_follower_with_only_refused_partitions_sends_no_fetch(
    follower: Harness,
) -> None:
    leader = Leader(answer(error_code=ErrorCode.FENCED_LEADER_EPOCH), answer(records=batch(0)))
    await follow(follower, leader)
    assert leader.offsets_asked == [[0], [0], [1]]


async def test_a_paused_follower_fetches_a_new_partition_at_once(
    follower: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "FIRST_BACKOFF_MS", 1000 * 3600)
    leader = Leader(answer(error_code=ErrorCode.FENCED_LEADER_EPOCH))
    fetcher = fetcher_of(follower, leader, backoff_ms=1000 * 3600)
    fetcher.follow(follower.replicas.take_refollowed()[LEADER_ID])
    running = asyncio.create_task(fetcher.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        while leader.answers or not fetcher._refusals:  # noqa: ASYNC110 - a pause has no event to wait for
            await asyncio.sleep(0)
        follower.set_topics(topic(leader=LEADER_ID, partitions=2))
        fetcher.follow(follower.replicas.take_refollowed()[LEADER_ID])
        await leader.silent.wait()
    running.cancel()
    assert [p.partition for p in leader.asked[1].topics[0].partitions] == [1]


async def test_a_lasting_refusal_is_logged_once(follower: Harness) -> None:
    leader = Leader(*(answer(error_code=ErrorCode.FENCED_LEADER_EPOCH) for _ in range(8)))
    with capture_logs() as logged:
        await follow(follower, leader)
    warnings = [line["reason"] for line in logged if line["log_level"] == "warning"]
    assert warnings == [ErrorCode.FENCED_LEADER_EPOCH.name]


async def test_a_follower_without_memory_says_so_until_it_has_appended_the_records(follower: Harness) -> None:
    """Seen to fail: an operator learned that the follower lags, and not why."""
    partition = follower.partition()
    memory = follower.replicas.memory
    room_bytes = memory.limit_bytes
    memory.set_limit(10)
    refused = []

    class Leading(Leader):
        async def request(self, *args: Any, **options: Any) -> Any:
            refused.append(partition.refusal)
            if len(refused) == 3:
                memory.set_limit(room_bytes)
            return await super().request(*args, **options)

    leader = Leading(*(answer(records=batch(0), high_watermark=0) for _ in range(3)))
    await follow(follower, leader)
    assert partition.log.log_end_offset == 1
    assert refused[0] == refused[3] == partition.refusal == ""
    assert "the logs of this broker hold 0 bytes of at most 10" in refused[1]
    assert refused[1] == refused[2]


async def test_records_that_do_not_continue_the_log_are_not_appended(follower: Harness) -> None:
    broken = bytearray(batch(0))
    broken[-1] ^= 1
    partition = await follow(follower, Leader(answer(records=bytes(broken)), FetchResponse()))
    assert partition.log.log_end_offset == 0


async def test_a_response_for_a_partition_that_is_no_longer_followed_is_ignored(follower: Harness) -> None:
    leader = Leader(answer(records=batch(0), high_watermark=1))
    original = leader.request

    async def move_while_fetching(*args: Any, **kwargs: Any) -> Any:
        if leader.answers:
            follower.set_topics(topic(leader=3, leader_epoch=1, partition_epoch=1))
        return await original(*args, **kwargs)

    leader.request = move_while_fetching  # type: ignore[method-assign]
    partition = await follow(follower, leader)
    assert partition.log.log_end_offset == 0


@pytest.mark.parametrize(
    "late", [{"diverging_epoch": EpochEndOffset(epoch=0, end_offset=1)}, {"records": batch(2), "high_watermark": 3}]
)
async def test_kip_320_a_response_to_a_request_in_an_earlier_leader_epoch_is_ignored(
    follower: Harness, late: dict[str, Any]
) -> None:
    leader = Leader(answer(records=batch(0) + batch(1)), answer(**late))
    original = leader.request

    async def elect_while_fetching(*args: Any, **kwargs: Any) -> Any:
        if len(leader.answers) == 1:
            follower.set_topics(topic(leader=LEADER_ID, leader_epoch=1, partition_epoch=1))
        return await original(*args, **kwargs)

    leader.request = elect_while_fetching  # type: ignore[method-assign]
    partition = await follow(follower, leader)
    assert (partition.log.log_end_offset, partition.high_watermark) == (2, 0)


async def test_the_first_partition_rotates_so_that_full_responses_starve_none(follower: Harness) -> None:
    follower.set_topics(topic(leader=LEADER_ID, partitions=3))
    leader = Leader(FetchResponse(), FetchResponse(), FetchResponse())
    await follow(follower, leader)
    first = [request.topics[0].partitions[0].partition for request in leader.asked]
    assert first == [0, 1, 2, 0]


@pytest.mark.parametrize("failure", [ConnectionError("reset"), TimeoutError("slow")])
async def test_a_lost_connection_is_opened_again(follower: Harness, failure: Exception) -> None:
    leader = Leader(answer(records=batch(0)), failure, answer(records=batch(1)))
    partition = await follow(follower, leader)
    assert leader.connections == 2
    assert partition.log.log_end_offset == 2


async def test_a_held_follower_sends_no_fetch(follower: Harness) -> None:
    gate = FollowerGate(CLOCK)
    gate.hold()
    leader = Leader(answer(records=batch(0)))
    following = asyncio.create_task(follow(follower, leader, gate=gate))
    await turns(5)
    assert (leader.connections, leader.asked) == (1, [])
    gate.release()
    await following
    assert leader.offsets_asked == [[0], [1]]


async def test_the_answer_to_a_fetch_from_before_the_hold_waits_for_the_release(follower: Harness) -> None:
    """The leader may have parked it, and answers when it has records."""
    gate = FollowerGate(CLOCK)
    leader = Leader(answer(records=batch(0)))
    leader.when_asked = gate.hold
    following = asyncio.create_task(follow(follower, leader, gate=gate))
    await turns(5)
    assert (leader.offsets_asked, leader.answers) == ([[0]], [])
    assert follower.partition().log.log_end_offset == 0
    leader.when_asked = lambda: None
    gate.release()
    await following
    assert follower.partition().log.log_end_offset == 1
    assert leader.offsets_asked == [[0], [1]]


async def turns(count: int) -> None:
    """Let the event loop turn."""
    for _ in range(count):
        await asyncio.sleep(0)


def in_session(response: FetchResponse, session_id: int = 5) -> FetchResponse:
    """Return a response with a session."""
    response.session_id = session_id
    return response


def sessions_asked(leader: Leader) -> list[tuple[int, int]]:
    return [(request.session_id, request.session_epoch) for request in leader.asked]


async def test_in_a_session_it_names_only_what_has_changed(follower: Harness) -> None:
    follower.set_topics(topic(leader=LEADER_ID, partitions=3))
    leader = Leader(
        in_session(answer(records=batch(0), high_watermark=0)),
        in_session(answer(high_watermark=1)),
        in_session(FetchResponse()),
    )
    partition = await follow(follower, leader)
    assert sessions_asked(leader) == [(0, 0), (5, 1), (5, 2), (5, 3)]
    assert leader.offsets_asked == [[0, 0, 0], [1], [], []]
    assert partition.high_watermark == 1


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ],
)
async def test_a_refused_session_begins_again_at_once_with_all_partitions(follower: Harness, error: ErrorCode) -> None:
    follower.set_topics(topic(leader=LEADER_ID, partitions=2))
    leader = Leader(in_session(answer(records=batch(0))), FetchResponse(error_code=error), in_session(FetchResponse()))
    await follow(follower, leader)
    assert sessions_asked(leader) == [(0, 0), (5, 1), (0, 0), (5, 1)]
    assert [sorted(offsets) for offsets in leader.offsets_asked] == [[0, 0], [1], [0, 1], []]
    assert leader.connections == 1


async def test_a_lost_connection_ends_the_session(follower: Harness) -> None:
    leader = Leader(in_session(answer(records=batch(0))), ConnectionError("reset"), in_session(FetchResponse()))
    await follow(follower, leader)
    assert sessions_asked(leader) == [(0, 0), (5, 1), (0, 0), (5, 1)]


async def test_a_follower_that_follows_nothing_more_keeps_nothing_to_forget(follower: Harness) -> None:
    leader = Leader(in_session(FetchResponse()), in_session(FetchResponse()))
    fetcher = fetcher_of(follower, leader)
    followed = follower.replicas.take_refollowed()[LEADER_ID]
    original = leader.request

    async def unfollow_while_fetching(*args: Any, **kwargs: Any) -> Any:
        if len(leader.answers) == 1:
            nothing_more = Refollowed()
            nothing_more.ended = followed.begun
            fetcher.follow(nothing_more)
        return await original(*args, **kwargs)

    leader.request = unfollow_while_fetching  # type: ignore[method-assign]
    fetcher.follow(followed)
    running = asyncio.create_task(fetcher.run())
    for _ in range(10):
        await asyncio.sleep(0)
    running.cancel()
    assert not leader.answers
    assert not fetcher._session._forgotten


async def test_a_session_that_the_leader_closes_is_followed_by_a_full_request(follower: Harness) -> None:
    leader = Leader(in_session(answer(records=batch(0))), FetchResponse())
    await follow(follower, leader)
    assert sessions_asked(leader) == [(0, 0), (5, 1), (0, 0)]


async def test_in_a_session_a_refused_partition_is_forgotten_and_named_again_after_its_pause(
    follower: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "FIRST_BACKOFF_MS", 0)
    follower.set_topics(topic(leader=LEADER_ID, partitions=2))
    refused = in_session(answer(error_code=ErrorCode.FENCED_LEADER_EPOCH))
    leader = Leader(in_session(FetchResponse()), refused, in_session(FetchResponse()))
    await follow(follower, leader)
    assert [[i for t in request.forgotten_topics_data for i in t.partitions] for request in leader.asked] == [[]] * 4
    assert [[p.partition for t in request.topics for p in t.partitions] for request in leader.asked[2:]] == [[0], []]


async def test_in_a_session_a_paused_partition_is_forgotten(follower: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower_module, "FIRST_BACKOFF_MS", 1000 * 3600)
    follower.set_topics(topic(leader=LEADER_ID, partitions=2))
    refused = in_session(answer(error_code=ErrorCode.FENCED_LEADER_EPOCH))
    leader = Leader(in_session(FetchResponse()), refused, in_session(FetchResponse()))
    await follow(follower, leader, backoff_ms=1000 * 3600)
    forgotten = [[i for t in request.forgotten_topics_data for i in t.partitions] for request in leader.asked]
    assert forgotten == [[], [], [0], []]
    assert leader.offsets_asked == [[0, 0], [], [], []]


async def test_a_truncation_is_told_to_the_leader_with_the_next_fetch(follower: Harness) -> None:
    diverging = answer(diverging_epoch=EpochEndOffset(epoch=0, end_offset=1))
    leader = Leader(in_session(answer(records=batch(0) + batch(1), high_watermark=1)), in_session(diverging))
    await follow(follower, leader)
    assert leader.offsets_asked == [[0], [2], [1]]


async def test_a_log_start_that_moves_at_the_follower_is_told_to_the_leader(follower: Harness) -> None:
    leader = Leader(
        in_session(answer(records=batch(0) + batch(1), high_watermark=2)),
        in_session(FetchResponse()),
        in_session(FetchResponse()),
    )
    original = leader.request

    async def delete_while_fetching(*args: Any, **kwargs: Any) -> Any:
        if len(leader.answers) == 2:
            follower.partition().log.advance_log_start(1)
        return await original(*args, **kwargs)

    leader.request = delete_while_fetching  # type: ignore[method-assign]
    await follow(follower, leader)
    starts = [[p.log_start_offset for t in request.topics for p in t.partitions] for request in leader.asked]
    assert starts == [[0], [0], [1], []]


THROTTLED = {"follower.replication.throttled.replicas": "*"}


@pytest.mark.parametrize("session_id", [0, 7])
@pytest.mark.parametrize(
    ("configs", "limit", "high_watermark", "asked"),
    [
        (THROTTLED, 10, 5, [[0], []]),
        (THROTTLED, 10, 1, [[0], [1]]),
        (THROTTLED, 10_000_000, 5, [[0], [1]]),
        ({}, 10, 5, [[0], [1]]),
    ],
    ids=["it lags", "it does not lag", "below the rate", "not listed"],
)
async def test_a_throttled_follower_leaves_out_what_lags_while_it_is_over_its_rate(
    follower: Harness, configs: dict[str, str], limit: int, high_watermark: int, asked: list[list[int]], session_id: int
) -> None:
    """KIP-73. Another partition is fetched on."""
    follower.set_topics(topic(leader=LEADER_ID, **configs), topic("other", leader=LEADER_ID))
    follower.replicas.follower_throttle.limit = limit
    first = answer(records=batch(0), high_watermark=high_watermark)
    first.session_id = session_id
    leader = Leader(first, FetchResponse(session_id=session_id))
    await follow(follower, leader, backoff_ms=1000 * 3600)
    orders = b"orders".ljust(16, b"\0")
    named = [[p.fetch_offset for t in r.topics if t.topic_id == orders for p in t.partitions] for r in leader.asked]
    assert named[:2] == asked
    forgotten = [topic.topic_id for topic in leader.asked[1].forgotten_topics_data]
    assert forgotten == ([orders] if session_id and not asked[1] else [])


async def test_a_throttled_follower_goes_on_when_the_rate_has_fallen(follower: Harness) -> None:
    """It sends nothing until then."""
    follower.set_topics(topic(leader=LEADER_ID, **THROTTLED))
    throttle = follower.replicas.follower_throttle
    throttle.limit = 10
    leader = Leader(answer(records=batch(0), high_watermark=5), answer(records=batch(1), high_watermark=1))
    waits: list[bool] = []

    def is_over() -> bool:
        waits.append(True)
        return len(waits) < 4

    throttle.is_over = is_over  # type: ignore[method-assign]  # the rate falls at the fourth look
    await follow(follower, leader)
    assert leader.offsets_asked == [[0], [1], [2]]
