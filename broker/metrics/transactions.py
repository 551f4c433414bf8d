"""The series of transactions: what brokers coordinate, and what they ask of coordinators for their partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from prometheus_client.metrics_core import Metric

from purgatorio.broker.metrics.family import counter, gauge
from purgatorio.broker.metrics.views import BrokerView
from purgatorio.broker.txn.overview import TransactionNumbers

_Rows = Sequence[tuple[str, str, Callable[[TransactionNumbers], int]]]

_GAUGES: Final[_Rows] = (
    ("purgatorio_transactional_ids", "Transactional ids that this broker coordinates.", lambda n: n.ids),
    ("purgatorio_transactions_open", "Open transactions, without those that are being ended.", lambda n: n.open),
    (
        "purgatorio_transaction_markers_missing",
        "End markers that leaders are still to write, of transactions whose result is decided.",
        lambda n: n.missing_markers,
    ),
)
_COUNTERS: Final[_Rows] = (
    ("purgatorio_transactions_committed", "Transactions that got all their commit markers.", lambda n: n.committed),
    ("purgatorio_transactions_aborted", "Transactions that got all their abort markers.", lambda n: n.aborted),
    ("purgatorio_transactions_timed_out", "Transactions aborted at their deadline.", lambda n: n.timed_out),
    ("purgatorio_transactional_ids_expired", "Transactional ids that were not used for long.", lambda n: n.expired),
    (
        "purgatorio_transaction_verifications",
        "Questions of this broker's partitions whether a transaction includes them.",
        lambda n: n.verifications,
    ),
    (
        "kafka_server_addpartitionstotxnmanager_verificationfailurerate",
        "Such questions that were answered with an error.",
        lambda n: n.failed_verifications,
    ),
)


def transactions(brokers: Sequence[BrokerView]) -> Iterator[Metric]:
    """Yield the families about transactions."""
    numbers = [broker.coordinators.transaction_numbers for broker in brokers]
    for make, rows in ((gauge, _GAUGES), (counter, _COUNTERS)):
        for name, doc, read in rows:
            family = make(name, doc)
            for broker, counted in zip(brokers, numbers, strict=True):
                family.add(broker, read(counted))
            yield family.metric
    offsets = gauge("purgatorio_transactional_offsets", "Offsets of groups that open transactions have written.")
    for broker in brokers:
        offsets.add(broker, broker.groups.transactional_offset_count)
    yield offsets.metric
