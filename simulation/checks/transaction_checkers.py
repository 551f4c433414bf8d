"""The checks of transactions: what readers under read_committed may see, and what must be there in the end.

Names are Adya's and Jepsen's where there is one (Kafka's report of 2024 on Bufstream, Redpanda's of 2022). Kafka allows
transactions of different transactional ids to be mixed in a log, and a reader to see a part of a committed transaction
before the rest of it; what it forbids is checked here. A transaction whose client did not learn how it ended is
committed as a whole or not at all.

The cost is O(n log n) in events and polled records.
"""

from __future__ import annotations

import graphlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from purgatorio.simulation.checks.checkers import Anomaly
from purgatorio.simulation.history.history import History, TxnInit, TxnMarker, TxnPolled
from purgatorio.simulation.history.transaction_history import TransactionHistory, TransactionSeen

Found = Iterator[tuple[str, str]]
"""Where an anomaly is, and its description."""
SHOWN: Final = 5


def mixed_transactions(of: TransactionHistory) -> Found:
    """G0: a record lies among those of another transaction of its transactional id, or behind its own end marker."""
    for partition, entries in of.log.items():
        unended: dict[str, TransactionSeen] = {}
        ended: set[int] = set()
        marked: dict[int, int] = {}
        for offset, entry in entries:
            if isinstance(entry, TxnMarker):
                _end(entry, unended, ended, marked)
                continue
            transaction = of.of_value.get(entry)
            if transaction is None:
                continue
            event = transaction.event
            before = unended.setdefault(event.transactional_id, transaction)
            told = f"{entry} at offset {offset} is of {transaction}"
            if before is not transaction:
                yield partition, f"{told}, and lies behind records of {before} without a marker between them"
                unended[event.transactional_id] = transaction
            if transaction.number in ended:
                yield partition, f"{told}, and lies behind the marker that ended it"
            elif event.epoch < marked.get(event.producer_id, -1):
                yield partition, f"{told}, and lies behind a marker of epoch {marked[event.producer_id]}"


def _end(marker: TxnMarker, unended: dict[str, TransactionSeen], ended: set[int], marked: dict[int, int]) -> None:
    """End the transaction of a marker's producer, and note the marker's epoch."""
    marked[marker.producer_id] = max(marker.epoch, marked.get(marker.producer_id, -1))
    for name, transaction in list(unended.items()):
        if transaction.event.producer_id == marker.producer_id:
            ended.add(transaction.number)
            del unended[name]


def aborted_read(of: TransactionHistory) -> Found:
    """G1a: a record of an aborted transaction was polled under read_committed."""
    for poll, _, _ in of.readings:
        for offset, value in poll.records:
            transaction = of.of_value.get(value)
            if transaction is not None and not transaction.may_be_committed:
                yield poll.partition, f"{_polled(poll, offset, value)}, a record of {transaction}"


def unstable_read(of: TransactionHistory) -> Found:
    """G1b: a record was polled under read_committed at the last stable offset, or before its commit was asked for."""
    for poll, place, _ in of.readings:
        for offset, value in poll.records:
            if offset >= poll.last_stable_offset:
                yield poll.partition, f"{_polled(poll, offset, value)} at last stable offset {poll.last_stable_offset}"
            transaction = of.of_value.get(value)
            if transaction is not None and place < transaction.committing:
                yield poll.partition, f"{_polled(poll, offset, value)} while it was open: {transaction}"


def torn_transaction(of: TransactionHistory) -> Found:
    """G1b: in the end some, but not all records of a transaction can be read under read_committed."""
    kept = set(of.kept())
    for transaction in of.transactions.values():
        writes = [write for write in transaction.writes if write.partition in kept]
        read = [write for write in writes if write.value in of.visible.get(write.partition, {})]
        if transaction.may_be_committed and 0 < len(read) < len(writes):
            missing = [f"{write.value} of {write.partition}" for write in writes if write not in read]
            told = f"{read[0].value} of {read[0].partition} can be read, and {', '.join(missing[:SHOWN])} cannot"
            yield "transactions", f"{told}: {transaction}"


def lost_transaction(of: TransactionHistory) -> Found:
    """An acknowledged record, not of a transaction or of a committed one, cannot be read under read_committed."""
    for partition in of.kept():
        visible = of.visible.get(partition, {})
        for value in of.acked.get(partition, ()):
            transaction = of.of_value.get(value)
            if value not in visible and (transaction is None or transaction.is_committed):
                end = of.drained[partition]
                told = f"{value} is not among offsets {end.start_offset} to {end.last_stable_offset}"
                yield partition, f"{told}: {transaction or 'a record without a transaction'}"


def cyclic_reads(of: TransactionHistory) -> Found:
    """G1c: committed transactions follow each other in a circle, as each has read what the next one wrote."""
    try:
        graphlib.TopologicalSorter(_successors(of)).prepare()
    except graphlib.CycleError as error:
        circle = error.args[1][1:]
        first = ", ".join(str(of.transactions[number]) for number in circle[:SHOWN])
        yield "transactions", f"{len(circle)} are in a circle: {first}"


def _successors(of: TransactionHistory) -> dict[int, dict[int, None]]:
    """Return, by transaction, those that read from it, or that went on in its group's input where it had stopped."""
    after: dict[int, dict[int, None]] = {}
    reached: dict[str, list[tuple[int, int]]] = {}
    for transaction in of.transactions.values():
        if not transaction.is_committed:
            continue
        for _, value in transaction.reads.values():
            writer = of.of_value.get(value)
            if writer is not None and writer is not transaction and writer.may_be_committed:
                after.setdefault(writer.number, {})[transaction.number] = None
        for partition, offset in _last_sources(of, transaction).items():
            reached.setdefault(partition, []).append((offset, transaction.number))
    for steps in reached.values():
        steps.sort()
        for (_, earlier), (_, later) in itertools.pairwise(steps):
            if earlier != later:
                after.setdefault(earlier, {})[later] = None
    return after


def _last_sources(of: TransactionHistory, transaction: TransactionSeen) -> dict[str, int]:
    """Return the last offset of each partition that a transaction's records were made from."""
    last: dict[str, int] = {}
    for write in transaction.writes:
        if write.value in of.sources:
            partition, offset = of.sources[write.value]
            last[partition] = max(offset, last.get(partition, offset))
    return last


def fenced_write(of: TransactionHistory) -> Found:
    """A record landed that its producer sent after another one had its transactional id, with a later epoch."""
    for transaction in of.transactions.values():
        event = transaction.event
        fence = _fence(of.inits.get(event.transactional_id, ()), transaction)
        if fence is None:
            continue
        place, init = fence
        for write in transaction.writes:
            acked = write.value in of.acked.get(write.partition, {})
            if write.place > place and (acked or write.value in of.seen):
                told = f"{write.value} was sent after {init.client} had epoch {init.epoch} at {init.time_ms} ms"
                yield write.partition, f"{told}: {transaction}"


def _fence(inits: Sequence[tuple[int, TxnInit]], transaction: TransactionSeen) -> tuple[int, TxnInit] | None:
    """Return the first event that gave out a later epoch than a transaction's, or another producer id after its own."""
    event, is_own = transaction.event, False
    for place, init in inits:
        is_same = init.producer_id == event.producer_id
        is_own |= is_same
        if (is_same and init.epoch > event.epoch) or (is_own and not is_same):
            return place, init
    return None


def processed_twice(of: TransactionHistory) -> Found:
    """A group's committed output has two records that were made from the same input."""
    for group, output in of.outputs.items():
        for source, values in _made_from(of, output).items():
            if len(values) > 1:
                told = " and ".join(f"{value} ({of.of_value[value]})" for value in values[:SHOWN])
                yield group, f"offset {source[1]} of {source[0]} is in the output as {told}"


def unprocessed_input(of: TransactionHistory) -> Found:
    """A committed input, though its group has read on to the end, is in no committed record of the group's output."""
    for group, output in of.outputs.items():
        made = _made_from(of, output)
        if any(partition in of.lossy for partition in _partitions(of, output)):
            continue
        for partition in of.kept():
            if _topic(partition) in of.outputs.values():
                continue
            missing = [offset for offset in of.visible.get(partition, {}).values() if (partition, offset) not in made]
            if missing:
                yield group, f"{len(missing)} records of {partition} are not in the output, first offset {min(missing)}"


def _topic(partition: str) -> str:
    return partition.rpartition("-")[0]


def _partitions(of: TransactionHistory, topic: str) -> list[str]:
    return [partition for partition in of.drained if _topic(partition) == topic]


def _made_from(of: TransactionHistory, output: str) -> dict[tuple[str, int], list[int]]:
    """Return the visible values of an output topic by the input that each was made from."""
    made: dict[tuple[str, int], list[int]] = {}
    for partition in _partitions(of, output):
        for value in of.visible.get(partition, {}):
            if value in of.sources:
                made.setdefault(of.sources[value], []).append(value)
    return made


def hanging_transaction(of: TransactionHistory) -> Found:
    """After all faults and transactions, the last stable offset of a partition is below its high watermark."""
    for partition, end in of.drained.items():
        if end.last_stable_offset < end.high_watermark:
            told = f"last stable offset {end.last_stable_offset} and high watermark {end.high_watermark}"
            yield partition, f"the final reader was told {told}"


def committed_skip(of: TransactionHistory) -> Found:
    """A reader under read_committed passed a record, within one assignment, that can be read there in the end."""
    at = {name: {offset: value for value, offset in of.visible.get(name, {}).items()} for name in of.kept()}
    for poll, _, position in of.readings:
        there = at.get(poll.partition)
        if there is None or position < 0 or not poll.records:
            continue
        received, last = dict(poll.records), poll.records[-1][0]
        for offset in range(position, last):
            if offset in there and offset not in received:
                told = f"{poll.consumer} was at {position} and received up to {last} at {poll.time_ms} ms"
                yield poll.partition, f"{told}; it missed {there[offset]} at offset {offset}"


_ALL: Final[Mapping[str, Callable[[TransactionHistory], Found]]] = {
    "G0": mixed_transactions,
    "aborted-read": aborted_read,
    "unstable-read": unstable_read,
    "torn-transaction": torn_transaction,
    "lost-transaction": lost_transaction,
    "committed-skip": committed_skip,
    "G1c": cyclic_reads,
    "fenced-write": fenced_write,
    "processed-twice": processed_twice,
    "unprocessed-input": unprocessed_input,
    "hanging-transaction": hanging_transaction,
}

TRANSACTION_CHECKS: Final[Mapping[str, str]] = {name: (found.__doc__ or "").strip() for name, found in _ALL.items()}
"""Each anomaly's name, and its meaning in one sentence."""


def check_transactions(history: History) -> list[Anomaly]:
    """Find all anomalies of the transactions in a history."""
    of = TransactionHistory(history)
    return [Anomaly(name, where, message) for name, find in _ALL.items() for where, message in find(of)]


def _polled(poll: TxnPolled, offset: int, value: int) -> str:
    return f"{poll.consumer} polled {value} at offset {offset} at {poll.time_ms} ms"
