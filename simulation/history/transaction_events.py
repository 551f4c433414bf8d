"""The events of transactions in a history.

A transaction has a number of its own, as one transactional id has many, also at one epoch. Its records are values as
any others: `Sent`, `Acked`, `Failed` and `Unknown` tell of them, and readers without isolation `Polled` them all.
"""

from __future__ import annotations

from dataclasses import dataclass

from purgatorio.simulation.history.event import Event, register


@dataclass(frozen=True, slots=True)
class TxnInit(Event):
    """The coordinator gave a client a producer id and epoch for a transactional id, which fences all earlier ones."""

    client: str
    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TxnBegan(Event):
    """A client begins a transaction."""

    client: str
    transactional_id: str
    txn: int
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TxnWrote(Event):
    """A client is about to send a value in a transaction; `Sent` follows.

    Attributes:
        source: the partition of the record that the value was made from; empty: of none.
        source_offset: the offset of that record, or −1.
    """

    txn: int
    partition: str
    value: int
    source: str = ""
    source_offset: int = -1


@dataclass(frozen=True, slots=True)
class TxnCommitting(Event):
    """A client is about to ask for the first time that a transaction be committed."""

    txn: int


@dataclass(frozen=True, slots=True)
class TxnEnded(Event):
    """A transaction is over for its client.

    Attributes:
        outcome: "committed"; "aborted": it was certainly not committed; "unknown": it may be committed, or become so.
    """

    txn: int
    outcome: str


@dataclass(frozen=True, slots=True)
class TxnMarker(Event):
    """A reader without isolation received the marker that ended a transaction on a partition.

    Attributes:
        final: as in `Polled`.
    """

    consumer: str
    partition: str
    offset: int
    producer_id: int
    epoch: int
    committed: bool
    final: bool = False


@dataclass(frozen=True, slots=True)
class TxnPolled(Event):
    """A reader under read_committed received records: pairs of offset and value, without those of aborted transactions.

    Attributes:
        last_stable_offset, high_watermark: from the response.
        final: as in `Polled`.
        broker: the broker that answered.
    """

    consumer: str
    partition: str
    records: tuple[tuple[int, int], ...]
    last_stable_offset: int
    high_watermark: int
    final: bool = False
    broker: int = -1


@dataclass(frozen=True, slots=True)
class TxnDrained(Event):
    """The final reader under read_committed has read a partition to its last stable offset; its polls come before."""

    partition: str
    start_offset: int
    last_stable_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class GroupTransforms(Event):
    """The members of a group write what they read to an output topic, in transactions that commit their offsets too."""

    group: str
    output: str


register(TxnInit, TxnBegan, TxnWrote, TxnCommitting, TxnEnded, TxnMarker, TxnPolled, TxnDrained, GroupTransforms)
