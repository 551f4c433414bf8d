"""Operations on records: append some without a client, and read what is committed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

from purgatorio.admin.operations.declare import Answer, Int32, Int64, Limits, Operation, arg
from purgatorio.broker.cluster.errors import Invalid, LeaderRefuses, MayBeDone, TimedOut
from purgatorio.protocol.errors import CorruptRecordError, ErrorCode

if TYPE_CHECKING:
    from purgatorio.admin.operations.operator import Operator
    from purgatorio.admin.operations.reading.records import IsolationLevel
    from purgatorio.admin.operations.record_json import JsonRecord
    from purgatorio.protocol.record import Record

MAX_RECORDS: Final = 10_000
"""Records of one request or answer."""
MAX_READ_BYTES: Final = 16 * 1024 * 1024
"""Keys and values of one answer; the record that is beyond it is the last one."""
PRODUCE_SECONDS: Final = 15.0
MAX_PRODUCE_BYTES: Final = 8 * 1024 * 1024
"""The longest body with records: they are read in one turn of the event loop."""
CLIENT: Final = "purgatorio.operations"
MAX_CLIENT_CHARS: Final = 2**15 - 1
_AFTER_APPEND: Final = frozenset((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
"""Errors of records that are in a leader's log, which may stay: the leader was found before."""


class ProduceRecords(
    Operation,
    http="POST /topics/{topic}/records",
    answered_by="who knows",
    patience_seconds=PRODUCE_SECONDS,
    max_body_bytes=MAX_PRODUCE_BYTES,
):
    """Append records with acks=all, without a client; answers when they are committed.

    Where brokers are processes, all of them to partitions that one broker leads.
    """

    topic: str = arg("the topic")
    records: Annotated[list[dict[str, Any]], Limits(min_length=1, max_length=MAX_RECORDS)] = arg(
        'the records: {"key": "17", "value": "paid", "headers": [{"name": "trace", "value": "9f"}], "partition": 0, '
        '"timestamp_ms": 0}, each field may be left out; bytes are in key_base64 and value_base64'
    )
    client: Annotated[str, Limits(max_length=MAX_CLIENT_CHARS)] = arg(
        "the client id of what waits for followers meanwhile", default=CLIENT
    )

    def check(self) -> None:
        if not self.records:
            raise ValueError("give at least one record")

    @classmethod
    def of(cls, topic: str, records: Sequence[JsonRecord], client: str) -> ProduceRecords:
        """Return the operation for records that are at hand as such, which JSON has in their place."""
        return cls(topic, cast("list[dict[str, Any]]", records), client)

    async def run(self, operator: Operator) -> Answer:
        """Append them, each partition's as one batch."""
        from purgatorio.admin.operations.control.topic_control import append, batches_of, partition_count
        from purgatorio.admin.operations.record_json import JsonRecord, NotARecord, parse_record

        parsed = []
        for number, each in enumerate(self.records):
            try:
                parsed.append(each if isinstance(each, JsonRecord) else parse_record(each))
            except NotARecord as error:
                raise Invalid(f"records.{number}: {error}") from None
        cluster = operator.cluster
        batches, places = batches_of(
            self.topic, parsed, partition_count(cluster, self.topic), round(cluster.clock.wall_ms())
        )
        results = await append(cluster, batches, self.client)
        for (tp, _), result in zip(batches, results, strict=True):
            if result.error_code == ErrorCode.REQUEST_TIMED_OUT:
                raise TimedOut(f"{tp}: REQUEST_TIMED_OUT: the in-sync replicas do not have the records")
            if result.error_code:
                refusal = MayBeDone if result.error_code in _AFTER_APPEND else LeaderRefuses
                raise refusal(f"{tp}: {result.error_message or result.error_code.name}")
        first = {tp.partition: result.base_offset for (tp, _), result in zip(batches, results, strict=True)}
        told = [{"partition": partition, "offset": first[partition] + nth} for partition, nth in places]
        return {"topic": self.topic, "records": told}


class ReadRecords(Operation, http="GET /topics/{topic}/records", answered_by="who knows"):
    """The committed records of a topic, by partition and offset, without a client.

    Where brokers are processes, of partitions that one broker leads.
    """

    topic: str = arg("the topic")
    partition: Int32 | None = arg("only this one's; all partitions' if it is not given", default=None)
    offset: Int64 = arg("only records from this offset on", default=0)
    limit: Annotated[int, Limits(ge=0, le=MAX_RECORDS)] = arg(f"how many, up to {MAX_RECORDS}", default=1000)
    isolation_level: str = arg(
        "read_committed leaves out what was aborted or is open; by default it is there", default="read_uncommitted"
    )

    def check(self) -> None:
        from purgatorio.admin.operations.reading.records import check_isolation_level

        check_isolation_level(self.isolation_level)

    async def run(self, operator: Operator) -> Answer:
        """Read them; waits some milliseconds for what is acknowledged, but not committed yet."""
        from purgatorio.admin.operations.record_json import shown_record
        from purgatorio.broker.replica.partition import PartitionError

        shown: list[Answer] = []
        size_bytes = 0
        for index, runs in await self._runs(operator):
            try:
                async for record in _each(runs):
                    if len(shown) >= self.limit or size_bytes >= MAX_READ_BYTES:
                        return {"topic": self.topic, "records": shown, "more": True}
                    shown.append(shown_record(index, record))
                    size_bytes += len(record.key or b"") + len(record.value or b"")
            except CorruptRecordError as error:  # of a batch that was taken by its header
                raise Invalid(f"a batch of {self.topic}-{index} cannot be read: {error}") from None
            except PartitionError as error:
                raise LeaderRefuses(f"{self.topic}-{index}: {error}") from None
        return {"topic": self.topic, "records": shown, "more": False}

    async def read(self, operator: Operator) -> list[tuple[int, Iterable[Record]]]:
        """Return each partition with all of its records, which are unpacked by and by; `limit` is for answers."""
        from purgatorio.broker.replica.partition import PartitionError

        try:
            return [
                (index, chain.from_iterable([run async for run in runs])) for index, runs in await self._runs(operator)
            ]
        except PartitionError as error:
            raise LeaderRefuses(f"{self.topic}: {error}") from None

    async def _runs(self, operator: Operator) -> list[tuple[int, AsyncIterator[Iterable[Record]]]]:
        from purgatorio.admin.operations.control.topic_control import leading, partition_count, until_committed
        from purgatorio.admin.operations.reading.records import read_runs

        cluster = operator.cluster
        count = partition_count(cluster, self.topic)
        partitions = range(count) if self.partition is None else (self.partition,)
        level = cast("IsolationLevel", self.isolation_level)  # it was checked
        await until_committed(cluster, self.topic, partitions, level)
        found: list[tuple[int, AsyncIterator[Iterable[Record]]]] = []
        for index in partitions:
            broker, replica = leading(cluster, self.topic, index)
            found.append((index, read_runs(replica, broker.tiering, level, self.offset)))
        return found

    @staticmethod
    def parsed(answer: Answer) -> list[tuple[int, Iterable[Record]]]:
        """Return the records of an answer by their partitions."""
        from purgatorio.admin.operations.record_json import parse_shown

        found: dict[int, list[Record]] = {}
        for each in answer["records"]:
            found.setdefault(each["partition"], []).append(parse_shown(each))
        return list(found.items())


async def _each(runs: AsyncIterator[Iterable[Record]]) -> AsyncIterator[Record]:
    async for run in runs:
        for record in run:
            yield record
