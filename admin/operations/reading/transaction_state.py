"""Reads transactions from their coordinators, at a bounded cost: there may be hundreds of thousands of ids."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Final, NamedTuple

from purgatorio.admin.operations.control.hanging_transactions import Hanging
from purgatorio.admin.operations.control.transaction_control import TransactionControl
from purgatorio.admin.operations.declare import Answer
from purgatorio.broker.cluster.errors import OperationRefused
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.time.long_work import Steps
from purgatorio.broker.txn.overview import overview, unmarked
from purgatorio.broker.txn.transaction import Transaction, TransactionKey, TransactionShard

TRANSACTIONS: Final = 20
"""Transactional ids on the page."""
IDS_LOOKED_AT: Final = 5_000
"""Transactional ids among which those are chosen, beside the longest open ones: two milliseconds."""
IDS_TOGETHER: Final = 500
"""Transactional ids of which a list chooses at once: half a millisecond."""
PARTITIONS: Final = 10
"""Partitions of each transaction on the page."""
MAX_PARTITIONS: Final = 2_000
"""Partitions that the description of one transaction lists."""

Found = tuple[Broker, Transaction]
"""A transactional id with its coordinator."""
Filter = Callable[[Transaction], bool]


class Wanted(NamedTuple):
    """Which transactions are listed.

    Attributes:
        state: those in this state; None: in any.
        producer_id: this producer's; -1: any.
        before_ms: those that were begun before, by wall time, and have not ended; None: any.
    """

    state: str | None
    producer_id: int
    before_ms: int | None

    def has(self, transaction: Transaction) -> bool:
        """Return whether a transaction is listed."""
        value = transaction.value
        return (
            self.state in (None, value.state.state_name)
            and self.producer_id in (-1, value.producer_id)
            and (self.before_ms is None or (not value.is_idle and value.started_ms < self.before_ms))
        )


async def read_transactions(control: TransactionControl, limit: int, passes: Filter) -> tuple[list[Answer], int, int]:
    """Return up to `limit` transactions that pass, their number, and the number of partitions of ids being loaded.

    Open ones come first, the oldest of all first; then the others, by id. Other tasks run meanwhile.
    """
    active, loading = _active(control)
    rows: list[Answer] = []
    count = 0

    def steps() -> Steps:
        nonlocal count
        chosen: list[Found] = []
        for broker, shard in active:
            known = [each for each in shard.transactions.values() if not each.value.is_new]
            for start in range(0, len(known), IDS_TOGETHER):
                passed = [(broker, each) for each in known[start : start + IDS_TOGETHER] if passes(each)]
                count += len(passed)
                chosen = heapq.nsmallest(limit, chain(chosen, passed), key=_rank_by_id)
                yield IDS_TOGETHER + len(chosen)
        for broker, transaction in chosen:
            rows.append(_read(broker, transaction))
            yield 8

    await control.cluster.work.take(steps())
    return rows, count, loading


def _rank_by_id(found: Found) -> tuple[bool, int, str]:
    value = found[1].value
    return value.is_idle, 0 if value.is_idle else value.started_ms, found[1].transactional_id


def read_transactions_for_page(
    control: TransactionControl,
) -> tuple[list[Answer], Answer]:
    """Return the most telling transactions with their first partitions, and the numbers of all.

    Open ones come first, the oldest of all first; then those that ended last, of `IDS_LOOKED_AT`.
    """
    active, _ = _active(control)
    some = ((broker, each) for broker, shard in active for each in shard.transactions.values())
    known = {found[1].transactional_id: found for found in chain(_longest_open(control), islice(some, IDS_LOOKED_AT))}
    chosen = heapq.nsmallest(TRANSACTIONS, known.values(), key=_rank)
    rows: list[Answer] = []
    for broker, transaction in chosen:
        partitions = [str(tp) for tp in islice(transaction.value.partitions, PARTITIONS)]
        rows.append({**_read(broker, transaction), "partitions": partitions})
    return rows, _counts(control.cluster.brokers)


def _longest_open(control: TransactionControl) -> Iterator[Found]:
    """Yield the transactions of each coordinator that wait for their deadline longest."""
    for broker in control.cluster.brokers:
        for parked in broker.transactions.timeout_purgatory.operations(TRANSACTIONS):
            (key,) = parked.keys
            assert isinstance(key, TransactionKey)
            with suppress(OperationRefused):  # the broker has just lost the partition
                yield control.find(key.transactional_id)


def _rank(found: Found) -> tuple[bool, int]:
    value = found[1].value
    return (True, -value.updated_ms) if value.is_idle else (False, value.started_ms)


def _counts(brokers: Sequence[Broker]) -> Answer:
    """Return how many transactions are open, and ended since the brokers started; `timed_out` ones are `aborted`."""
    counted = [broker.transactions for broker in brokers]
    return {
        "ids": sum(each.id_count for each in counted),
        "open": sum(each.open_count for each in counted),
        "committed": sum(each.completion.committed_count for each in counted),
        "aborted": sum(each.completion.aborted_count for each in counted),
        "timed_out": sum(each.completion.timed_out_count for each in counted),
    }


def _active(control: TransactionControl) -> tuple[list[tuple[Broker, TransactionShard]], int]:
    """Return the active shards with their coordinators, and the number of shards that are being loaded."""
    shards = list(control.shards())
    active = [(broker, shard) for broker, shard in shards if shard.is_active]
    return active, len(shards) - len(active)


def _read(broker: Broker, transaction: Transaction) -> Answer:
    return {**overview(broker.transactions, transaction), "coordinator": broker.broker_id}


def read_transaction(control: TransactionControl, image: ClusterImage, transactional_id: str) -> Answer:
    """Return a transactional id with the partitions of its transaction.

    Raises:
        OperationRefused: there is no such id, or its coordinator does not run, or loads its ids.
    """
    broker, transaction = control.find(transactional_id)
    missing = unmarked(transaction)
    rows = [_partition(tp, image, missing) for tp in heapq.nsmallest(MAX_PARTITIONS, transaction.value.partitions)]
    return {**_read(broker, transaction), "partitions": rows}


def _partition(tp: TopicPartition, image: ClusterImage, missing: Collection[TopicPartition]) -> Answer:
    state = image.partition(*tp)
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "leader": NO_LEADER if state is None else state.leader,
        "marker_missing": tp in missing,
    }


def read_hanging(hanging: Hanging, now_ms: int) -> Answer:
    """Return a hanging transaction, at this wall time."""
    return {
        "topic": hanging.tp.topic,
        "partition": hanging.tp.partition,
        "producer_id": hanging.producer_id,
        "producer_epoch": hanging.producer_epoch,
        "start_offset": hanging.start_offset,
        "open_ms": max(0, now_ms - hanging.started_ms),
        "id": hanging.transactional_id,
    }
