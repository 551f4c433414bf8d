"""Why consumers under read_committed cannot read up to the high watermark: the transaction that holds them back.

A log knows the producer of a transaction, and its leader the transactional id. When it will be aborted is known to its
coordinator, which may be another broker; here all brokers of the process are at hand.
"""

from __future__ import annotations

from typing import NamedTuple

from purgatorio.admin.operations.control.transaction_control import TransactionControl
from purgatorio.admin.operations.declare import Answer
from purgatorio.broker.causes.words import shortened
from purgatorio.broker.cluster.errors import ClusterUnavailable, NotThere
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.txn.overview import time_left_ms


class ExpectedEnd(NamedTuple):
    """A coordinator's knowledge of the end of a transaction.

    Attributes:
        says: this in a few words; "" if the coordinator cannot be asked.
        time_left_ms: the time until it is aborted; None if it will not be.
    """

    says: str
    time_left_ms: int | None = None


def expected_end_of(
    control: TransactionControl, transactional_id: str, tp: TopicPartition | None = None
) -> ExpectedEnd:
    """Return how a transaction that is open in a log is expected to end.

    Args:
        tp: the partition of the log, if it is known: another transaction of the id may be open without it.
    """
    try:
        broker, transaction = control.find(transactional_id)
    except NotThere:
        return ExpectedEnd("unknown to its coordinator")
    except ClusterUnavailable:
        return ExpectedEnd("")
    value = transaction.value
    if tp is not None and not value.is_idle and tp not in value.partitions:
        return ExpectedEnd("unknown to its coordinator")
    if value.is_decided:
        return ExpectedEnd("being committed" if value.is_commit else "being aborted")
    left_ms = time_left_ms(broker.transactions, transaction)
    if left_ms is not None:
        return ExpectedEnd(f"times out in {left_ms / 1000:.1f} s", left_ms)
    return ExpectedEnd("" if transaction.pending is not None else "unknown to its coordinator")


def read_holding(partition: Partition, control: TransactionControl, wall_ms: int) -> Answer | None:
    """Return the transaction that holds the last stable offset; None if that is the high watermark.

    `transactional_id` is "" and `timeout_left_ms` None if no coordinator of it runs here. `open_ms` is None for a
    transaction that has ended, but whose end marker is not committed yet. `says` has all this in a sentence.
    """
    producers = partition.log.producers
    oldest = producers.oldest_unstable()
    if oldest is None or partition.last_stable_offset >= partition.high_watermark:
        return None
    producer_id, started_ms = oldest
    state = producers.get(producer_id)
    transactional_id = "" if state is None else state.transactional_id
    name = f"`{shortened(transactional_id)}`" if transactional_id else f"producer {producer_id}"
    says = f"held by the transaction of {name}"
    if started_ms < 0:
        open_ms, end = None, ExpectedEnd("")
        says += ", whose end is not committed yet"
    else:
        open_ms = max(0, wall_ms - started_ms)
        end = expected_end_of(control, transactional_id, partition.tp) if transactional_id else ExpectedEnd("")
        says += f", open {open_ms / 1000:.1f} s" + (f", {end.says}" if end.says else "")
    return {
        "producer_id": producer_id,
        "transactional_id": transactional_id,
        "open_ms": open_ms,
        "timeout_left_ms": end.time_left_ms,
        "says": says,
    }
