"""Reads partitions from their leaders, a task for each leader, and writes each record once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from purgatorio.admin.cli.printable import printable
from purgatorio.admin.cli.wire.asking import (
    Client,
    check_topic,
    explained,
    first_of,
    refused,
    sentence,
)
from purgatorio.client.client import FAILURES, Partition, Refused, check
from purgatorio.client.fetch import fetch_request_of, read
from purgatorio.client.negotiated import NotServed
from purgatorio.protocol.errors import CorruptRecordError, ErrorCode

MAX_WAIT_MS: Final = 500
FOLLOW_WAIT_MS: Final = 5_000
"""The same with --follow: each request names all partitions, of which there may be thousands that have nothing."""
HELD_MS: Final = 2_000
"""Most transactions end sooner; of others that hold a reader back it says so."""
MAX_HIDDEN: Final = 5
"""Partitions that are named with records that a transaction hides."""
METADATA_MS: Final = 5_000
"""How often a topic that is followed is asked for partitions that were added."""
MAX_BYTES: Final = 4 * 1024 * 1024
"""Of one answer: there is one of each leader in memory."""


class Grown(Exception):
    """The topic that is followed has more partitions."""


class Reader:
    """Reads partitions up to their ends, or for ever.

    Attributes:
        positions: the offset of the next record, by partition; it moves when records are written.
        read_count: records that are written.
        grows: the topic whose new partitions are read, too; None: the partitions are those that are given.

    Args:
        ends: where each partition ends; None: it is followed.
        left: how many records are wanted; None: all.
    """

    def __init__(
        self,
        client: Client,
        output: Callable[[str, int, Iterable[Any]], None],
        *,
        ends: Mapping[Partition, int] | None,
        committed: bool,
        left: int | None,
        patience_ms: int,
        quiet: bool,
    ) -> None:
        self.positions: dict[Partition, int] = {}
        self.read_count = 0
        self.left = left
        self.grows: str | None = None
        self._client = client
        self._output = output
        self._ends = ends
        self._committed = committed
        self._patience_ms = patience_ms
        self._quiet = quiet
        self._answered_ms = client.clock.now_ms()
        self._is_waiting = False
        self._held: dict[Partition, tuple[int, float]] = {}

    def _is_open(self, tp: Partition) -> bool:
        """Return whether there is more to read in a partition."""
        return self.left != 0 and (self._ends is None or self.positions[tp] < self._ends.get(tp, 0))

    async def run(self) -> None:
        """Read until all partitions have ended, or there are enough records.

        Raises:
            CommandRefused: a partition cannot be read, or no broker answered for too long.
        """
        self._answered_ms = self._client.clock.now_ms()
        while any(map(self._is_open, self.positions)):
            try:
                await self._read_by_leader()
            except (BaseExceptionGroup, *FAILURES) as error:
                cause = first_of(error)
                if isinstance(cause, Grown):
                    continue
                if not isinstance(cause, FAILURES) or isinstance(cause, NotServed):
                    raise cause from error
                await self._wait(cause)

    async def _read_by_leader(self) -> None:
        """Read each partition from its leader, until one of them has another leader."""
        open_ones = [tp for tp in self.positions if self._is_open(tp)]
        by_leader: dict[int, list[Partition]] = {}
        for tp, leader in (await leaders_of(self._client, {topic for topic, _ in open_ones})).items():
            if tp in self.positions and self._is_open(tp):
                by_leader.setdefault(leader, []).append(tp)
        if -1 in by_leader:
            raise Refused(ErrorCode.LEADER_NOT_AVAILABLE)
        if missing := set(open_ones).difference(*by_leader.values()):
            topic, index = min(missing)
            raise refused(f"UNKNOWN_TOPIC_OR_PARTITION: {topic} has no partition {index}")
        async with asyncio.TaskGroup() as tasks:
            readers = [tasks.create_task(self._read_from(*each)) for each in by_leader.items()]
            if self.grows is not None:
                noticing = tasks.create_task(self._notice_new(self.grows))
                await asyncio.wait(readers)
                noticing.cancel()

    async def _notice_new(self, topic: str) -> None:
        """Begin at the first record of partitions that are added; raises Grown."""
        while True:
            await self._client.clock.sleep(METADATA_MS)
            try:
                found = await leaders_of(self._client, [topic])
            except FAILURES:
                continue  # the reader gives up if no broker answers
            if new := [tp for tp, leader in found.items() if tp not in self.positions and leader >= 0]:
                self.positions |= dict.fromkeys(new, 0)
                self._say(f"{topic} has {len(found)} partitions now")
                raise Grown

    async def _read_from(self, leader: int, partitions: list[Partition]) -> None:
        max_wait_ms = MAX_WAIT_MS
        while partitions:
            request = fetch_request_of(
                {tp: self.positions[tp] for tp in partitions},
                max_wait_ms=max_wait_ms,
                max_bytes=MAX_BYTES,
                committed=self._committed,
            )
            answer = await self._client.ask(leader, request, timeout_ms=max_wait_ms + self._patience_ms)
            check(answer.error_code)
            self._answered()
            max_wait_ms = FOLLOW_WAIT_MS if self._ends is None else MAX_WAIT_MS  # the first says what is held back
            read_now = set()
            for topic in answer.responses:
                for data in topic.partitions:
                    if self._take((topic.topic, data.partition_index), data):
                        read_now.add((topic.topic, data.partition_index))
            # Those that had nothing come first the next time, so that none waits for ever behind a busy one.
            partitions = [tp for tp in sorted(partitions, key=read_now.__contains__) if self._is_open(tp)]

    def _take(self, tp: Partition, data: Any) -> bool:
        """Write the records of an answer; return whether there were some."""
        code = ErrorCode.known(data.error_code)
        position = self.positions[tp]
        if code is ErrorCode.OFFSET_OUT_OF_RANGE and position < data.log_start_offset:
            self._say(f"{tp[0]}-{tp[1]}: records from {position} to {data.log_start_offset - 1} are deleted")
            self.positions[tp] = data.log_start_offset
            return True
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            raise refused(f"OFFSET_OUT_OF_RANGE: {tp[0]}-{tp[1]} has no offset {position} any more: records were lost")
        if code:
            if code.retriable:
                raise Refused(code)
            raise refused(explained(data.error_code, None, f"{tp[0]}-{tp[1]} cannot be read"))
        return self._put(tp, data)

    def _put(self, tp: Partition, data: Any) -> bool:
        """Write what an answer without an error has, and move the position; return whether there were records."""
        position = self.positions[tp]
        try:
            records, end = read(data, position)
        except CorruptRecordError as error:
            raise refused(f"CORRUPT_MESSAGE: {tp[0]}-{tp[1]} at offset {position}: {error}") from None
        if self._committed and self._ends is None:
            self._notice_held(tp, data, end)
        if self._ends is not None:
            records = [each for each in records if each.offset < self._ends.get(tp, 0)]
        if self.left is not None and len(records) > self.left:
            records = records[: self.left]
            end = records[-1].offset + 1 if records else position
        if records:
            self._output(*tp, records)
            self.read_count += len(records)
            if self.left is not None:
                self.left -= len(records)
        self.positions[tp] = end
        return bool(records)

    def _notice_held(self, tp: Partition, data: Any, end: int) -> None:
        """Say once that an open transaction holds this reader back, when it has for a while."""
        count = data.high_watermark - data.last_stable_offset
        if count <= 0 or end < data.last_stable_offset or data.last_stable_offset < 0:
            self._held.pop(tp, None)
            return
        now_ms = self._client.clock.now_ms()
        stable, since_ms = self._held.setdefault(tp, (data.last_stable_offset, now_ms))
        if stable != data.last_stable_offset:
            self._held[tp] = data.last_stable_offset, now_ms
        elif now_ms - since_ms >= HELD_MS:
            self._held[tp] = stable, float("inf")
            self._say(hiding({tp: count}))

    def _answered(self) -> None:
        self._answered_ms = self._client.clock.now_ms()
        if self._is_waiting:
            self._is_waiting = False
            self._say("the cluster answers again")

    async def _wait(self, cause: BaseException) -> None:
        """Wait before the cluster is asked again, unless that was too long."""
        if self._client.clock.now_ms() - self._answered_ms >= self._patience_ms:
            raise refused(f"{sentence(cause)}; given up after {self._patience_ms / 1000:g} s")
        if not isinstance(cause, Refused) and not self._is_waiting:
            self._is_waiting = True
            self._say(f"{sentence(cause)}; trying for {self._patience_ms / 1000:g} s")
        self._client.forget()
        await self._client.back_off()

    def _say(self, text: str) -> None:
        if not self._quiet:
            print(f"purgatorio: {printable(text)}", file=sys.stderr)


def hiding(hidden: Mapping[Partition, int]) -> str:
    """Return that an open transaction hides so many offsets of partitions."""
    count = sum(hidden.values())
    offsets = "the last offset" if count == 1 else f"the last {count} offsets"
    named = ", ".join(f"{topic}-{index}" for topic, index in list(hidden)[:MAX_HIDDEN])
    others = " and others" if len(hidden) > MAX_HIDDEN else ""
    return f"an open transaction hides {offsets} of {named}{others}; --isolation read_uncommitted shows them"


async def leaders_of(client: Client, topics: Iterable[str]) -> dict[Partition, int]:
    """Return the leader of each partition of topics, -1 for none.

    Raises:
        CommandRefused: there is no such topic.
        Unavailable: no broker answers.
    """
    found = {}
    for topic in (await client.describe(sorted(topics))).topics:
        if topic.error_code == ErrorCode.LEADER_NOT_AVAILABLE:
            raise Refused(ErrorCode.LEADER_NOT_AVAILABLE)
        await check_topic(client, topic.name or "", topic.error_code)
        for each in topic.partitions:
            leader = each.leader_id if each.leader_id in client.addresses else -1
            found[topic.name or "", each.partition_index] = leader
    return found
