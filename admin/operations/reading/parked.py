"""The parked operations of the brokers, an operation a row, chosen by purgatory, topic and client."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from purgatorio.admin.operations.control.transaction_control import TransactionControl
from purgatorio.admin.operations.reading.stable_offsets import expected_end_of
from purgatorio.broker.causes.cause import OpenTransaction
from purgatorio.broker.causes.kinds import KINDS
from purgatorio.broker.causes.words import as_document, in_words
from purgatorio.broker.node.broker import Broker
from purgatorio.purgatory import ParkedOperation

KEYS: Final = 8
"""Keys that a document has of an operation; a fetch may have thousands."""
CAUSES: Final = 8
"""Causes that a document has of one; a produce may wait for followers of thousands of partitions."""
TEXT_CHARS: Final = 500
"""The length to which texts of a document are cut."""


class ParkedRow(NamedTuple):
    """An operation that waits.

    Attributes:
        missing: a sentence: what it waits for.
        causes: the same as data; dictionaries in a document.
        group: the group that its keys name.
    """

    broker: int
    id: int
    purgatory: str
    client: str
    keys: tuple[str, ...]
    missing: str
    causes: tuple[Any, ...]
    waited_ms: int
    remaining_ms: int
    group: str | None

    def as_document(self) -> dict[str, Any]:
        """Return it as JSON, with the first of its keys and causes."""
        return {
            **self._asdict(),
            "client": cut(self.client),
            "keys": list(self.keys[:KEYS]),
            "key_count": len(self.keys),
            "missing": cut(self.missing),
            "causes": [as_document(each, TEXT_CHARS) for each in self.causes[:CAUSES]],
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return what a document says."""
        row = cls(**{name: document[name] for name in cls._fields})
        return row._replace(keys=tuple(row.keys), causes=tuple(row.causes))


def read_parked(
    brokers: Sequence[Broker],
    transactions: TransactionControl,
    api: str | None,
    topic: str | None,
    client: str | None,
    limit: int,
) -> Iterator[ParkedRow]:
    """Yield what waits, oldest first in each purgatory, and at most `limit` of each.

    Args:
        api: of this purgatory only; None: of all but those of sessions, of which each member has one.
        topic: only what watches this topic or partition.
        client: only requests of this client id.
    """
    for broker in brokers:
        for purgatory in broker.purgatories:
            if purgatory.name != api and (api is not None or KINDS[purgatory.name].is_idle):
                continue
            now_ms = purgatory.now_ms()
            for each in purgatory.operations(limit):
                if client in (None, each.client) and (topic is None or _names_topic(topic, each.keys)):
                    yield _row(broker.broker_id, each, now_ms, transactions)


def cut(text: str) -> str:
    """Return a text as a document has it."""
    return text if len(text) <= TEXT_CHARS else text[: TEXT_CHARS - 1] + "…"


def _names_topic(topic: str, keys: Sequence[Hashable]) -> bool:
    return any(topic in (str(key), getattr(key, "topic", None)) for key in keys)


def _row(broker_id: int, parked: ParkedOperation, now_ms: int, transactions: TransactionControl) -> ParkedRow:
    groups = (group for key in parked.keys if (group := getattr(key, "group_id", None)) is not None)
    return ParkedRow(
        broker_id,
        parked.id,
        parked.purgatory,
        parked.client,
        tuple(map(str, parked.keys)),
        missing(parked, transactions),
        tuple(parked.causes),
        now_ms - parked.parked_ms,
        parked.deadline_ms - now_ms,
        next(groups, None),
    )


def missing(parked: ParkedOperation, transactions: TransactionControl) -> str:
    """Return the words for what it misses; open transactions with what will become of them."""

    def fate(transaction: OpenTransaction) -> str:
        return expected_end_of(transactions, transaction.transactional_id).says if transaction.transactional_id else ""

    return in_words(parked.causes, fate)
