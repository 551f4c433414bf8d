"""The fetch loop of a follower: one for each leader, over TCP, with the same Fetch API that consumers use."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, cast

from purgatorio.broker.log.log import LogError
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.following.follower_session import FollowerSession
from purgatorio.broker.replica.following.leader_log import EARLIEST, LATEST, LATEST_TIERED, CannotFollow, LeaderLog
from purgatorio.broker.replica.following.rebuilding import Rebuilding
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.replica.roles import Refollowed
from purgatorio.broker.replica.tiering import Tiering
from purgatorio.late import dataclass
from purgatorio.logger import get_logger
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.errors import ErrorCode, ProtocolError
from purgatorio.protocol.messages.fetch import (
    NO_SESSION,
    SESSION_ERRORS,
    EpochEndOffset,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from purgatorio.protocol.primitives import Buffer
from purgatorio.protocol.records import end_of_batches
from purgatorio.purgatory.clock import Clock, time_limit

logger = get_logger(__name__)

FETCH_VERSION = 16
MAX_ANSWER_BYTES = 240_000
"""The most bytes that a follower asks for: uvloop reads 256,000 at once, and they take a turn a millisecond or two."""
SLICE_BYTES = 16 * 1024
"""Records of a partition up to this size are appended at once: some 90 batches of one small record."""
SLICE_BATCHES = 64
"""Batches of larger ones that are appended before the follower looks at the clock."""
SHARE_SECONDS = 0.001
"""Time for which a follower appends such slices in one turn of the event loop, as connections start requests."""
FIRST_BACKOFF_MS = 20
"""The first pause after a refusal. Most refusals end soon: leader or follower lacks the newest image."""
WARN_AFTER_FAILURES = 5
"""The consecutive failures after which one warning is logged: about 0.6 seconds."""


class Peer(Protocol):
    """A connection to another broker."""

    async def request(self, api_key: int, api_version: int, message: Any, *, timeout_ms: int) -> Any:
        """Send a request and wait for its response.

        Raises:
            ConnectionError: the connection is lost.
            TimeoutError: no response arrived in time.
        """
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


Connect = Callable[[int], Awaitable[Peer]]


@dataclass(slots=True)
class FetchSettings:
    """Limits and timeouts of a follower's fetches; Kafka's replica.fetch.* configs.

    Attributes:
        response_timeout_ms: the time that a response may take beyond the fetch's wait; after it the connection is
            closed (Kafka: replica.socket.timeout.ms).
    """

    wait_max_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 10 * 1024 * 1024
    partition_max_bytes: int = 1024 * 1024
    backoff_ms: int = 100
    response_timeout_ms: int = 30_000


class FollowerGate:
    """Holds this broker's fetches back, so that a user can watch produce requests wait for them.

    While it is held, a fetch that is under way at a leader brings nothing either: its answer waits here.

    Args:
        clock: times the delay.
        delay_ms: see below.

    Attributes:
        delay_ms: the pause between receiving records and the next fetch, which acknowledges them.
    """

    def __init__(self, clock: Clock, delay_ms: int = 0) -> None:
        self.delay_ms = delay_ms
        self._clock = clock
        self._open = asyncio.Event()
        self._open.set()

    @property
    def held(self) -> bool:
        """Whether fetches are held back."""
        return not self._open.is_set()

    def hold(self) -> None:
        """Send no fetch, and append nothing that was fetched, until `release`."""
        self._open.clear()

    def release(self) -> None:
        """Send fetches again."""
        self._open.set()

    async def passed(self) -> None:
        """Wait until it is not held."""
        await self._open.wait()

    async def delayed(self) -> None:
        """Wait `delay_ms`."""
        if self.delay_ms > 0:
            await self._clock.sleep(self.delay_ms)


@dataclass(slots=True)
class _Refusal:
    """Consecutive refusals of a partition, and the time until which fetches leave it out."""

    times: int = 0
    until_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerServices:
    """Services that the fetchers of one broker share.

    Attributes:
        replicas: this broker's replicas, to which fetched records are appended.
        connect: opens a connection to a broker.
        settings: limits and timeouts of fetches.
        gate: holds fetches back.
        clock: times pauses.
        rng: the jitter of retries.
    """

    replicas: ReplicaManager
    connect: Connect
    settings: FetchSettings
    gate: FollowerGate
    clock: Clock
    rng: random.Random


class FollowerFetcher:
    """Fetches all partitions that this broker follows from one leader, in an endless loop.

    Args:
        leader_id: the broker to fetch from.
        services: what it has in common with this broker's other fetchers.
    """

    def __init__(self, leader_id: int, services: FollowerServices) -> None:
        self.leader_id = leader_id
        self._replicas = services.replicas
        self._connect = services.connect
        self._settings = services.settings
        self._gate = services.gate
        self._clock = services.clock
        self._rng = services.rng
        self._session = FollowerSession(services.settings.partition_max_bytes)
        self._followed: dict[TopicPartition, Partition] = {}
        self._changed = asyncio.Event()
        self._refusals: dict[TopicPartition, _Refusal] = {}
        self._failures = 0
        self._refused_since_ms: int | None = None
        self._turn = -1
        self._attempt: asyncio.Timeout | None = None

    def follow(self, changes: Refollowed) -> None:
        """Fetch what is followed from this leader from now on, and no longer what is not."""
        for tp, partition in changes.ended.items():
            self._followed.pop(tp, None)
            self._refusals.pop(tp, None)
            partition.refusal = ""
            self._session.forget(partition)
        for tp, partition in changes.begun.items():
            self._followed[tp] = partition
            partition.refusal = ""
            self._session.alter(partition)
        self._changed.set()

    def alter(self, partition: Partition) -> None:
        """Name a replica in the next fetch: its offsets have changed other than by a fetch."""
        if self._followed.get(partition.tp) is partition and partition.tp not in self._refusals:
            self._session.alter(partition)

    def seems_dead(self, within_ms: int) -> bool:
        """Return whether the leader refuses connections, and began to less than `within_ms` ago."""
        since_ms = self._refused_since_ms
        return since_ms is not None and self._clock.now_ms() < since_ms + within_ms

    def reconnect(self) -> None:
        """Connect anew, and wait for no answer over the present connection: the leader has another incarnation.

        It may run on another host, beside the one that the connection leads to, which may be frozen.
        """
        self._failures = 0
        if self._attempt is not None and not self._attempt.expired():
            self._attempt.reschedule(0.0)  # a moment that has passed: cancel now

    async def run(self) -> None:
        """Fetch until cancelled; after a lost connection or an invalid response, log and retry after a pause."""
        while True:
            if not self._followed:
                self._changed.clear()
                await self._changed.wait()
                continue
            try:
                async with asyncio.timeout(None) as attempt:
                    self._attempt = attempt
                    await self._connect_and_fetch()
            except TimeoutError:
                logger.debug("connecting anew", broker=self._replicas.broker_id, leader=self.leader_id)
            finally:
                self._attempt = None

    async def _connect_and_fetch(self) -> None:
        """Fetch over a new connection as long as there are partitions to follow, and pause after a failure."""
        try:
            peer = await self._connect(self.leader_id)
            self._refused_since_ms = None
        except (OSError, TimeoutError) as error:
            if isinstance(error, ConnectionRefusedError) and self._refused_since_ms is None:
                self._refused_since_ms = self._clock.now_ms()
            await self._back_off("cannot connect to the leader", error)
            return
        try:
            await self._fetch_from(peer)
        except (OSError, TimeoutError, ProtocolError) as error:
            await self._back_off("fetching from the leader failed", error)
        finally:
            peer.close()
            self._session.reset()  # the next connection begins anew; a follower without partitions keeps nothing

    async def _back_off(self, event: str, error: Exception) -> None:
        self._failures += 1
        log = logger.warning if self._failures == WARN_AFTER_FAILURES else logger.debug
        log(event, broker=self._replicas.broker_id, leader=self.leader_id, reason=str(error) or repr(error))
        await self._clock.sleep(self._delay_ms(self._failures) * self._rng.uniform(0.5, 1.0))

    def _delay_ms(self, failures: int) -> int:
        """Return the pause after this number of consecutive failures."""
        return min(self._settings.backoff_ms, FIRST_BACKOFF_MS << min(failures - 1, 20))

    async def _fetch_from(self, peer: Peer) -> None:
        """Fetch over one connection as long as there are partitions to follow."""
        while self._followed:
            await self._gate.passed()
            if self._replicas.tiering is not None:
                await self._hear_copied(peer, self._replicas.tiering)
            ready = self._ready()
            if not ready and (not self._session.is_open or self._session.is_empty):
                # The leader answers a fetch without partitions at once: sending it would be a busy loop.
                self._session.reset()
                await self._until_resumed()
                continue
            request = self._request(ready)
            timeout_ms = request.max_wait_ms + self._settings.response_timeout_ms
            response: FetchResponse = await peer.request(ApiKey.FETCH, FETCH_VERSION, request, timeout_ms=timeout_ms)
            await self._gate.passed()
            if response.error_code in SESSION_ERRORS and request.session_id != NO_SESSION:
                logger.debug("fetch session refused", broker=self._replicas.broker_id, leader=self.leader_id)
                self._session.reset()
                continue
            if response.error_code:
                raise ProtocolError(f"the leader answered {ErrorCode(response.error_code).name}")
            self._failures = 0
            got_records, out_of_range, in_tier = await self._apply(response)
            self._session.answered(response.session_id)
            del response  # it may be 10 MiB, and the leader may hold the next fetch for long
            for partition in out_of_range:
                await self._reset_into_leaders_log(peer, partition)
            for partition in in_tier:
                await self._rebuild(peer, partition)
            if got_records:
                await self._gate.delayed()

    def _ready(self) -> list[Partition]:
        """Return the partitions that a full request names: all but those that are paused after a refusal.

        The first partition rotates, since the leader fills a response from the front until it is full. A session's
        requests only need those whose pause is over.
        """
        now_ms = self._clock.now_ms()
        refusals = self._refusals
        self._keep_throttled(now_ms)
        if self._session.is_open:
            for tp, refusal in refusals.items():
                partition = self._followed.get(tp)
                if partition is not None and refusal.until_ms <= now_ms and not self._session.is_current(partition):
                    self._session.alter(partition)
            return []
        ready = [p for tp, p in self._followed.items() if tp not in refusals or refusals[tp].until_ms <= now_ms]
        self._turn += 1
        first = self._turn % len(ready) if ready else 0
        return ready[first:] + ready[:first]

    def _pause(self, partition: Partition, error: object) -> None:
        """Leave a partition out of fetches for a while: the leader refused it, or its records do not fit the log."""
        refusal = self._refusals.setdefault(partition.tp, _Refusal())
        refusal.times += 1
        refusal.until_ms = self._clock.now_ms() + self._delay_ms(refusal.times)
        self._session.forget(partition)
        partition.refusal = str(error)
        log = logger.warning if refusal.times == WARN_AFTER_FAILURES else logger.debug
        log(
            "follower fetch refused",
            broker=self._replicas.broker_id,
            leader=self.leader_id,
            partition=str(partition.tp),
            reason=str(error),
        )

    def _throttled(self, partition: Partition, leader_high_watermark: int) -> bool:
        """Leave a partition that lags out of fetches for a while if this broker fetches faster than it may (KIP-73)."""
        if leader_high_watermark <= partition.log.log_end_offset or not self._is_over(partition):
            return False
        refusal = self._refusals.setdefault(partition.tp, _Refusal())
        refusal.until_ms = self._clock.now_ms() + self._settings.backoff_ms
        self._session.forget(partition)
        return True

    def _is_over(self, partition: Partition) -> bool:
        throttle = self._replicas.follower_throttle
        return throttle.limit is not None and self._replicas.is_throttled(partition) and throttle.is_over()

    def _keep_throttled(self, now_ms: int) -> None:
        """Leave partitions out for longer whose pause is over, but the rate has not fallen."""
        if self._replicas.follower_throttle.limit is not None:
            for tp, refusal in self._refusals.items():
                partition = self._followed.get(tp)
                if partition is not None and refusal.until_ms <= now_ms and self._is_over(partition):
                    refusal.until_ms = now_ms + self._settings.backoff_ms

    async def _until_resumed(self) -> None:
        """Wait until a pause is over, or the followed partitions change."""
        self._changed.clear()
        until_ms = min((refusal.until_ms for refusal in self._refusals.values()), default=0)
        with contextlib.suppress(TimeoutError):
            async with time_limit(self._clock, until_ms - self._clock.now_ms()):
                await self._changed.wait()

    def _request(self, ready: list[Partition]) -> FetchRequest:
        own = self._replicas.incarnation
        assert own is not None, "a broker follows when it is registered"
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=own.broker_id, replica_epoch=own.broker_epoch),  # KIP-903
            max_wait_ms=self._max_wait_ms(),
            min_bytes=self._settings.min_bytes,
            max_bytes=min(self._settings.max_bytes, MAX_ANSWER_BYTES),
        )
        self._session.fill_in(request, ready)
        return request

    def _max_wait_ms(self) -> int:
        """Return the longest time that the leader may hold the fetch: it ends when the first pause is over."""
        wait_ms = self._settings.wait_max_ms
        if self._refusals:
            now_ms = self._clock.now_ms()
            pauses_ms = [r.until_ms - now_ms for r in self._refusals.values() if r.until_ms > now_ms]
            wait_ms = min([wait_ms, *pauses_ms])
        return wait_ms

    async def _apply(self, response: FetchResponse) -> tuple[bool, list[Partition], list[Partition]]:
        """Append the fetched records.

        Returns:
            Whether there were any, the partitions that are out of range, and those that only the tier has there.
        """
        got_records = False
        out_of_range, in_tier = [], []
        named = self._session.named
        for topic in response.responses:
            for data in topic.partitions:
                partition, leader_epoch = named.get((topic.topic_id, data.partition_index), (None, -1))
                if partition is None or not self._still_followed(partition, leader_epoch):
                    continue
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    out_of_range.append(partition)
                elif data.error_code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
                    in_tier.append(partition)
                elif data.error_code:
                    self._pause(partition, ErrorCode(data.error_code).name)
                elif data.diverging_epoch.end_offset >= 0:
                    self._truncate(partition, data.diverging_epoch)
                elif await self._append(partition, leader_epoch, data):
                    got_records = True
                    if not self._throttled(partition, data.high_watermark):
                        self._session.alter(partition)
        return got_records, out_of_range, in_tier

    def _still_followed(self, partition: Partition, leader_epoch: int) -> bool:
        """Return whether the response to a request in `leader_epoch` still applies to this replica."""
        return (
            self._replicas.partitions.get(partition.tp) is partition
            and partition.leader == self.leader_id
            and partition.leader_epoch == leader_epoch
        )

    async def _append(self, partition: Partition, leader_epoch: int, data: PartitionData) -> bool:
        """Append one partition's records, many of them in several turns of the event loop.

        Returns:
            Whether there were any; False as well if the replica is not followed any more, or its log refuses them.
        """
        records = cast("Buffer | None", data.records) or b""  # decoded records are one view into the response
        has_records = len(records) > 0
        ends_seconds = self._clock.now_seconds() + SHARE_SECONDS
        try:
            while len(records) > SLICE_BYTES and (end := end_of_batches(records, SLICE_BATCHES)) < len(records):
                log_start_offset = partition.log.log_start_offset  # the leader's is for the last slice
                self._replicas.append_as_follower(partition, records[:end], data.high_watermark, log_start_offset)
                records = records[end:]
                if self._clock.now_seconds() > ends_seconds:
                    await asyncio.sleep(0)
                    await self._gate.passed()
                    if not self._still_followed(partition, leader_epoch):
                        return False
                    ends_seconds = self._clock.now_seconds() + SHARE_SECONDS
            self._replicas.append_as_follower(partition, records, data.high_watermark, data.log_start_offset)
        except LogError as error:
            self._pause(partition, error)
            return False
        if self._refusals.pop(partition.tp, None) is not None:
            partition.refusal = ""
            self._rebuilds(partition, False)
        return has_records

    def _truncate(self, partition: Partition, diverging: EpochEndOffset) -> None:
        self._replicas.truncate_to(partition, common_end(partition, diverging))
        self._session.alter(partition)

    async def _reset_into_leaders_log(self, peer: Peer, partition: Partition) -> None:
        """Move the log's end into the leader's log after OFFSET_OUT_OF_RANGE.

        A log that ends after the leader's log end offset is truncated to it. A log that ends before the leader's log
        start offset, or whose epochs the leader does not know, is emptied and restarted at the leader's start offset.
        """
        leader_epoch, leader = partition.leader_epoch, self._log_of(peer)
        try:
            start_offset, _ = await leader.offset(partition, EARLIEST)
            end_offset, _ = await leader.offset(partition, LATEST)
        except CannotFollow as error:
            self._pause(partition, error)
            return
        if not self._still_followed(partition, leader_epoch):
            return
        if partition.log.log_end_offset > end_offset > partition.log.log_start_offset:
            self._replicas.truncate_to(partition, end_offset)
        else:
            self._replicas.restart_at(partition, start_offset)
        self._session.alter(partition)

    async def _rebuild(self, peer: Peer, partition: Partition) -> None:
        """Begin behind what only the tier has, or later if that is not possible yet."""
        leader_epoch = partition.leader_epoch
        rebuilding = Rebuilding(self._replicas, self._log_of(peer))
        self._rebuilds(partition, True)
        try:
            await rebuilding.rebuild(partition, lambda: self._still_followed(partition, leader_epoch))
        except CannotFollow as error:
            self._pause(partition, error)
        else:
            self._rebuilds(partition, False)
            self._session.alter(partition)

    async def _hear_copied(self, peer: Peer, tiering: Tiering) -> None:
        """Ask up to where partitions are copied to the tier of which this broker does not know it."""
        asked = tiering.take_to_ask(self.leader_id)
        if not asked:
            return
        epochs = [partition.leader_epoch for partition in asked]
        answers = await self._log_of(peer).offsets(asked, LATEST_TIERED)
        for partition, leader_epoch, (offset, epoch, _) in zip(asked, epochs, answers, strict=True):
            if offset >= 0 and self._still_followed(partition, leader_epoch):
                tiering.copied_by_leader(partition, offset, epoch)

    def _log_of(self, peer: Peer) -> LeaderLog:
        return LeaderLog(self._replicas.broker_id, partial(peer.request, timeout_ms=self._settings.response_timeout_ms))

    def _rebuilds(self, partition: Partition, is_rebuilding: bool) -> None:
        tiering = self._replicas.tiering
        if tiering is not None and is_rebuilding:
            tiering.rebuilding[partition.tp] = None
        elif tiering is not None:
            tiering.rebuilding.pop(partition.tp, None)


def common_end(partition: Partition, diverging: EpochEndOffset) -> int:
    """Return the last offset at which this log and the leader's may agree (KIP-101, KIP-595, KIP-279)."""
    _, own_end_offset = partition.log.end_offset_for_epoch(diverging.epoch)
    return min(own_end_offset, diverging.end_offset)
