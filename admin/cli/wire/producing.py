"""``purgatorio records produce``: lines become batches, which are sent until their leaders have them."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from purgatorio.admin.cli.command import CommandRefused
from purgatorio.admin.cli.printable import printable
from purgatorio.admin.cli.wire.asking import Client, check_topic, explained, patiently, refused, sentence
from purgatorio.admin.cli.wire.lines import Input, LineError, Splitter, record_of, record_of_json
from purgatorio.admin.operations.record_json import JsonRecord, NotARecord, partition_of
from purgatorio.client.client import FAILURES, VERSIONS, Leader, Refused
from purgatorio.client.negotiated import NotServed
from purgatorio.client.produce import ALL_REPLICAS, NO_PRODUCER, produce_request_of
from purgatorio.late import dataclass
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.compression import Compression
from purgatorio.protocol.errors import EncodeError, ErrorCode
from purgatorio.protocol.messages.metadata import MetadataRequest
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from purgatorio.purgatory.clock import time_limit

ROUND_BYTES: Final = 1024 * 1024
"""Keys and values that are collected before they are sent."""
BATCH_BYTES: Final = 512 * 1024
"""Keys and values of one batch, unless one record has more; half of what topics allow by default."""
RECORD_COST_BYTES: Final = 100
"""The cost of a record in memory beside its bytes."""
LINGER_MS: Final = 5
"""How long the next line is waited for before what there is is sent."""
MAX_NAMED: Final = 10
"""Partitions that the summary names."""
MAX_BAD_LINES: Final = 5
"""Bad lines that are named with --skip-bad-lines."""
SEQUENCES: Final = 2**31
TERMINATED: Final = 143
"""The exit status that a shell expects of a program that SIGTERM ended."""


@dataclass(slots=True)
class _Batch:
    """Records of one partition, and the sequence number of the first one."""

    records: Sequence[JsonRecord]
    sequence: int

    def halves(self) -> tuple[_Batch, _Batch]:
        """Return two batches with these records."""
        half = len(self.records) // 2
        return _Batch(self.records[:half], self.sequence), _Batch(
            self.records[half:], (self.sequence + half) % SEQUENCES
        )


@dataclass(slots=True)
class _Written:
    """The acknowledged records of one partition; the offsets are negative if they are not known."""

    count: int = 0
    first: int = -1
    last: int = -1


class Writer:
    """Collects records, and sends them in rounds: memory is bounded, and each partition keeps its order.

    Attributes:
        clock: that of its client.
        written: what is acknowledged, by partition.
        collected: records that are not acknowledged.
        line: the number of the last line that became one.
    """

    def __init__(
        self,
        client: Client,
        topic: str,
        partition_count: int,
        *,
        acks: int,
        compression: Compression,
        producer: tuple[int, int],
        timeout_ms: int,
    ) -> None:
        self.written: dict[int, _Written] = {}
        self.collected = 0
        self.line = 0
        self.clock = client.clock
        self._client = client
        self._topic = topic
        self._partition_count = partition_count
        self._acks = acks
        self._compression = compression
        self._producer = producer
        self._timeout_ms = timeout_ms
        self._size_bytes = 0
        self._without_key = 0
        self._sequences: dict[int, int] = {}
        self._open: dict[int, tuple[list[JsonRecord], list[int]]] = {}  # records, and their bytes as one number
        self._ready: dict[int, deque[_Batch]] = {}

    @property
    def is_full(self) -> bool:
        """Whether a round is to be sent before there are more records."""
        return self._size_bytes >= ROUND_BYTES

    def add(self, record: JsonRecord) -> None:
        """Collect a record.

        Raises:
            NotARecord: the topic has no such partition.
        """
        index = record.partition
        if index is None:
            index = partition_of(record.key, self._partition_count, self._without_key)
            self._without_key += record.key is None
        elif index >= self._partition_count:
            raise NotARecord(
                f"UNKNOWN_TOPIC_OR_PARTITION: {self._topic} has {self._partition_count} partitions, no {index}"
            )
        if record.timestamp_ms is None:
            record = record._replace(timestamp_ms=round(self.clock.wall_ms()))
        size_bytes = len(record.key or b"") + len(record.value or b"") + RECORD_COST_BYTES
        size_bytes += sum(len(name) + len(value or b"") for name, value in record.headers)
        records, sizes = self._open.setdefault(index, ([], [0]))
        if records and sizes[0] + size_bytes > BATCH_BYTES:
            self._seal(index)
            records, sizes = self._open.setdefault(index, ([], [0]))
        records.append(record)
        sizes[0] += size_bytes
        self._size_bytes += size_bytes
        self.collected += 1

    def _seal(self, index: int) -> None:
        records, _ = self._open.pop(index)
        sequence = self._sequences.get(index, 0)
        self._sequences[index] = (sequence + len(records)) % SEQUENCES
        self._ready.setdefault(index, deque()).append(_Batch(records, sequence))

    async def flush(self) -> None:
        """Send what is collected; returns when the leaders have it.

        Raises:
            CommandRefused: they do not take it, or not in time.
        """
        for index in list(self._open):
            self._seal(index)
        deadline_ms = self.clock.now_ms() + self._timeout_ms
        while self._ready:
            failure = await self._send_round()
            if failure is None:
                continue
            if self.clock.now_ms() >= deadline_ms:
                raise refused(f"{failure}: not acknowledged within {self._timeout_ms / 1000:g} s")
            await self._client.back_off()
        self._size_bytes = 0

    async def finish(self) -> None:
        """Send what is collected; with acks=0, wait until the leaders have read it."""
        await self.flush()
        if not self._acks:
            leaders = [self._client.leaders.get((self._topic, index)) for index in self.written]
            for leader in sorted({each.broker_id for each in leaders if each is not None}):
                await self._client.ask(leader, MetadataRequest(topics=[]))

    async def _send_round(self) -> str | None:
        """Send the first batch of each partition; return why one has to be sent again, if so."""
        by_leader: dict[int, list[int]] = {}
        try:
            for index in self._ready:
                by_leader.setdefault(await self._leader(index), []).append(index)
        except FAILURES as error:
            return sentence(error)
        outcomes = await asyncio.gather(
            *(self._send(leader, indexes) for leader, indexes in by_leader.items()), return_exceptions=True
        )
        self._ready = {index: batches for index, batches in self._ready.items() if batches}
        for each in outcomes:
            if isinstance(each, BaseException):
                raise each
        return next((each for each in outcomes if isinstance(each, str)), None)

    async def _leader(self, index: int) -> int:
        known = self._client.leaders.get((self._topic, index))
        if known is None:
            await find_leaders(self._client, self._topic)
            known = self._client.leaders.get((self._topic, index))
            if known is None:
                raise Refused(ErrorCode.LEADER_NOT_AVAILABLE)
        return known.broker_id

    async def _send(self, leader: int, indexes: Sequence[int]) -> str | None:
        batches = {(self._topic, index): self._built(self._ready[index][0]) for index in indexes}
        request = produce_request_of(batches, acks=self._acks, timeout_ms=self._timeout_ms)
        try:
            if not self._acks:
                link = await self._client.link(leader)
                await link.send(ApiKey.PRODUCE, VERSIONS[ApiKey.PRODUCE], request)
                for index in indexes:
                    self._done(index, -1)
                return None
            answer = await self._client.ask(leader, request)
        except NotServed as error:
            raise refused(str(error)) from None
        except FAILURES as error:
            self._client.forget()
            return f"NETWORK_EXCEPTION: {sentence(error)}"
        results = (each for topic in answer.responses for each in topic.partition_responses)
        failures = [self._taken(each.index, each.error_code, each.base_offset, each.error_message) for each in results]
        return next((each for each in failures if each is not None), None)

    def _built(self, batch: _Batch) -> bytes:
        records = [
            Record(nth, each.timestamp_ms or 0, each.key, each.value, each.headers)
            for nth, each in enumerate(batch.records)
        ]
        try:
            return build_batch(
                records,
                compression=self._compression,
                producer_id=self._producer[0],
                producer_epoch=self._producer[1],
                base_sequence=batch.sequence if self._producer != NO_PRODUCER else -1,
            )
        except EncodeError as error:
            raise refused(f"a record cannot be written: {error}") from None

    def _taken(self, index: int, code: int, offset: int, message: str | None) -> str | None:
        """Act on a leader's answer; return why the batch has to be sent again, if so."""
        error = ErrorCode.known(code)
        if not error or error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:  # the leader had it, its answer was lost
            self._done(index, offset if not error else -1)
            return None
        batch = self._ready[index][0]
        if error is ErrorCode.MESSAGE_TOO_LARGE and len(batch.records) > 1:
            self._ready[index].popleft()
            self._ready[index].extendleft(reversed(batch.halves()))
            return None
        if not error.retriable:
            raise refused(f"{self._topic}-{index}: {explained(code, message, 'the leader does not take the records')}")
        self._client.leaders.pop((self._topic, index), None)
        return f"{self._topic}-{index}: {error.name}"

    def _done(self, index: int, offset: int) -> None:
        count = len(self._ready[index].popleft().records)
        written = self.written.setdefault(index, _Written())
        if offset >= 0:
            written.first = offset if written.first < 0 else written.first
            written.last = offset + count - 1
        written.count += count
        self.collected -= count


async def find_leaders(client: Client, topic: str) -> int:
    """Look up the leaders of a topic's partitions, and return how many partitions it has.

    Raises:
        CommandRefused: there is no such topic.
        Unavailable: no broker answers.
    """
    (found,) = (await client.metadata(topic)).topics
    await check_topic(client, topic, found.error_code)
    for each in found.partitions:
        if each.leader_id in client.addresses:
            client.leaders[topic, each.partition_index] = Leader(each.leader_id, each.leader_epoch)
    return len(found.partitions)


# --- the command ---


async def produce(client: Client, args: argparse.Namespace) -> int:
    """Write lines of the standard input, or the values that the command has, to a topic; returns the exit code."""
    acks = {"all": ALL_REPLICAS, "-1": ALL_REPLICAS, "1": 1, "0": 0}[args.acks]
    count = await find_leaders(client, args.topic)
    if args.partition is not None and args.partition >= count:
        raise refused(f"UNKNOWN_TOPIC_OR_PARTITION: {args.topic} has {count} partitions, no {args.partition}")
    writer = Writer(
        client,
        args.topic,
        count,
        acks=acks,
        compression=Compression[args.compression.upper()],
        producer=await _producer(client) if acks == ALL_REPLICAS else NO_PRODUCER,
        timeout_ms=round(args.timeout * 1000),
    )
    bad = list[str]()
    with _until_terminated():
        try:
            if args.values:
                _collect(writer, _parser(args), enumerate(map(_bytes, args.values), 1), args, bad)
            else:
                await _read(writer, args, bad)
            await writer.finish()
        except LineError as error:
            await writer.finish()
            raise refused(f"{error}; nothing after it is sent") from None
        finally:
            _report(writer, args, bad)
    return 0


@contextlib.contextmanager
def _until_terminated() -> Iterator[None]:
    """End this task by SIGTERM, so that the command says what is written before it ends."""
    loop, task, is_ended = asyncio.get_running_loop(), asyncio.current_task(), False

    def end() -> None:
        nonlocal is_ended
        is_ended = True
        assert task is not None, "a coroutine runs in a task"
        task.cancel()

    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
        loop.add_signal_handler(signal.SIGTERM, end)
    try:
        yield
    except asyncio.CancelledError:
        if is_ended:
            raise CommandRefused("purgatorio: ended by SIGTERM", TERMINATED) from None
        raise
    finally:
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.remove_signal_handler(signal.SIGTERM)


async def _producer(client: Client) -> tuple[int, int]:
    """Return the id of an idempotent producer, so that no record is written twice; none where a cluster gives none."""
    try:
        return await patiently(client, client.producer_id)
    except Refused:
        return NO_PRODUCER


async def _read(writer: Writer, args: argparse.Namespace, bad: list[str]) -> None:
    """Read the standard input to its end; what comes slowly is sent when it comes."""
    if sys.stdin is None:
        raise refused("there is nothing to read: the standard input is closed")
    if sys.stdin.isatty() and not args.quiet:
        print("Type records, one a line; Ctrl-D ends.", file=sys.stderr)
    source, splitter, parse = Input(), Splitter(_unescaped(args.delimiter)), _parser(args)
    coming = source.next()
    while True:
        if writer.collected and not coming.done():
            with contextlib.suppress(TimeoutError):
                async with time_limit(writer.clock, LINGER_MS):
                    await asyncio.shield(coming)
            if not coming.done():
                await writer.flush()
        chunk = await coming
        if chunk:
            coming = source.next()
        for number, line in splitter.feed(chunk):
            _collect(writer, parse, [(number, line)], args, bad)
            if writer.is_full:
                await writer.flush()
        if not chunk:
            return


def _collect(
    writer: Writer,
    parse: Callable[[bytes], JsonRecord],
    lines: object,
    args: argparse.Namespace,
    bad: list[str],
) -> None:
    """Give lines to the writer; one that is no record ends the command, or is skipped."""
    for number, line in lines:  # type: ignore[attr-defined]
        try:
            writer.add(parse(line))
            writer.line = number
        except NotARecord as error:
            if not args.skip_bad_lines:
                raise LineError(f"line {number}: {error}") from None
            bad.append(f"line {number}: {error}" if len(bad) < MAX_BAD_LINES else "")


def _parser(args: argparse.Namespace) -> Callable[[bytes], JsonRecord]:
    headers = tuple((name, value.encode()) for name, value in args.header or ())
    if args.json_lines:
        return partial(record_of_json, headers=headers, partition=args.partition)
    return partial(
        record_of,
        key_separator=None if args.key_separator is None else _unescaped(args.key_separator),
        key=None if args.key is None else _bytes(args.key),
        headers=headers,
        partition=args.partition,
        null=None if args.null is None else _bytes(args.null),
    )


def _bytes(text: str) -> bytes:
    """Return what a user typed, also if it is no UTF-8."""
    return text.encode(errors="surrogateescape")


def _unescaped(text: str) -> bytes:
    r"""Return a separator, of which ``\t``, ``\n``, ``\0`` and ``\xXX`` may be a part."""
    from purgatorio.admin.cli.wire.formats import format_of

    constant = format_of(text.replace("%", "%%"))
    found = constant("", 0, Record(0, 0, None, None))
    if not found:
        raise CommandRefused("purgatorio: a separator is at least one character", 2)
    return found


def _report(writer: Writer, args: argparse.Namespace, bad: Sequence[str]) -> None:
    """Print on the standard error what is written, and what may be."""
    if bad:
        for each in bad[:MAX_BAD_LINES]:
            print(f"purgatorio: {printable(each)}", file=sys.stderr)
        print(f"purgatorio: {len(bad)} lines are no records, and were skipped", file=sys.stderr)
    if not args.quiet:
        print(summary(args.topic, writer.written, "sent" if args.acks == "0" else "written"), file=sys.stderr)
    if writer.collected:
        verb = "is" if writer.collected == 1 else "are"
        unknown = f"{writer.collected} of those up to line {writer.line} {verb} not known to be written"
        print(f"{unknown}; nothing after it is sent", file=sys.stderr)


def summary(topic: str, written: Mapping[int, _Written], verb: str) -> str:
    """Return what is written, by partition."""
    total = sum(each.count for each in written.values())
    named = []
    for index, each in sorted(written.items())[:MAX_NAMED]:
        if each.first < 0:
            named.append(f"{each.count} in partition {index}")
        else:
            span = f"offset {each.first}" if each.first == each.last else f"offsets {each.first} to {each.last}"
            named.append(f"partition {index} {span}")
    if len(written) > MAX_NAMED:
        named.append(f"and {len(written) - MAX_NAMED} more partitions")
    records = "1 record" if total == 1 else f"{total} records"
    return f"{records} {verb} to {topic}" + (f": {', '.join(named)}" if named else "")
