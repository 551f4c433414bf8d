"""Operations on records: append some without a client, and read what is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from purgatorio.admin.operations.declare import Answer, Int32, Int64, Limits, Operation, arg
from purgatorio.broker.cluster.errors import ClusterUnavailable, Invalid
from purgatorio.protocol.errors import CorruptRecordError

if TYPE_CHECKING:
    from purgatorio.admin.operations.operator import Operator

MAX_RECORDS: Final = 10_000
"""Records of one request or answer."""
MAX_READ_BYTES: Final = 16 * 1024 * 1024
"""Keys and values of one answer; the record that is beyond it is the last one."""
PRODUCE_SECONDS: Final = 15.0
MAX_PRODUCE_BYTES: Final = 8 * 1024 * 1024
"""The longest body with records: they are read in one turn of the event loop."""
CLIENT: Final = "purgatorio.operations"
"""The client id of what waits for followers meanwhile."""


class ProduceRecords(
    Operation,
    http="POST /topics/{topic}/records",
    answered_by="nobody",
    patience_seconds=PRODUCE_SECONDS,
    max_body_bytes=MAX_PRODUCE_BYTES,
):
    """Append records with acks=all, without a client; answers when they are committed."""

    topic: str = arg("the topic")
    records: Annotated[list[dict[str, Any]], Limits(min_length=1, max_length=MAX_RECORDS)] = arg(
        'the records: {"key": "17", "value": "paid", "headers": [{"name": "trace", "value": "9f"}], "partition": 0, '
        '"timestamp_ms": 0}, each field may be left out; bytes are in key_base64 and value_base64'
    )

    async def run(self, operator: Operator) -> Answer:
        """Append them, each partition's as one batch."""
        from purgatorio.admin.operations.control.importing import batches_of
        from purgatorio.admin.operations.control.topic_control import append, partition_count
        from purgatorio.admin.operations.record_json import NotARecord, parse_record

        parsed = []
        for number, each in enumerate(self.records):
            try:
                parsed.append(parse_record(each))
            except NotARecord as error:
                raise Invalid(f"records.{number}: {error}") from None
        cluster = operator.cluster
        batches, places = batches_of(
            self.topic, parsed, partition_count(cluster, self.topic), round(cluster.clock.wall_ms())
        )
        results = await append(cluster, batches, CLIENT)
        for (tp, _), result in zip(batches, results, strict=True):
            if result.error_code:
                raise ClusterUnavailable(f"{tp}: {result.error_message or result.error_code.name}")
        first = {tp.partition: result.base_offset for (tp, _), result in zip(batches, results, strict=True)}
        told = [{"partition": partition, "offset": first[partition] + nth} for partition, nth in places]
        return {"topic": self.topic, "records": told}


class ReadRecords(Operation, http="GET /topics/{topic}/records", answered_by="nobody"):
    """The committed records of a topic, by partition and offset, without a client."""

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
        from purgatorio.admin.operations.control.topic_control import led, partition_count, until_committed
        from purgatorio.admin.operations.reading.records import read_records
        from purgatorio.admin.operations.record_json import shown_record

        cluster, level = operator.cluster, self.isolation_level
        count = partition_count(cluster, self.topic)
        partitions = range(count) if self.partition is None else (self.partition,)
        await until_committed(cluster, self.topic, partitions, level)  # type: ignore[arg-type]  # it was checked
        shown: list[Answer] = []
        size_bytes = 0
        try:
            for index in partitions:
                for record in read_records(led(cluster, self.topic, index), level, self.offset):  # type: ignore[arg-type]
                    if len(shown) >= self.limit or size_bytes >= MAX_READ_BYTES:
                        return {"topic": self.topic, "records": shown, "more": True}
                    shown.append(shown_record(index, record))
                    size_bytes += len(record.key or b"") + len(record.value or b"")
        except CorruptRecordError as error:  # of a batch that was taken by its header
            raise Invalid(f"a batch of {self.topic}-{index} cannot be read: {error}") from None
        return {"topic": self.topic, "records": shown, "more": False}
