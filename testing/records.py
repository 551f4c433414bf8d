"""The committed records of a replica, as tests get them."""

from __future__ import annotations

from collections.abc import Iterator

from purgatorio.admin.operations.reading import records
from purgatorio.broker.replica.partition import Partition
from purgatorio.testing.values import IsolationLevel, Record


def read_records(replica: Partition, isolation_level: IsolationLevel) -> Iterator[Record]:
    """Yield the records of a leader, as `purgatorio.admin.operations.reading.records` does."""
    topic, index = replica.tp
    for each in records.read_records(replica, isolation_level):
        yield Record(topic, index, each.offset, each.key, each.value, tuple(each.headers), each.timestamp_ms)
