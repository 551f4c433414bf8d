"""The committed records of a replica, as tests get them."""

from __future__ import annotations

from collections.abc import Iterator

from purgatorio.admin.operations.reading import records
from purgatorio.broker.replica.partition import Partition
from purgatorio.protocol.record import Record as WireRecord
from purgatorio.testing.values import IsolationLevel, Record


def read_records(replica: Partition, isolation_level: IsolationLevel) -> Iterator[Record]:
    """Return the records of a leader, as `purgatorio.admin.operations.reading.records` does."""
    topic, index = replica.tp
    return (record_of(topic, index, each) for each in records.read_records(replica, isolation_level))


def record_of(topic: str, partition: int, found: WireRecord) -> Record:
    """Return a record of a log as tests get it."""
    return Record(topic, partition, found.offset, found.key, found.value, tuple(found.headers), found.timestamp_ms)
