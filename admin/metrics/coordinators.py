"""The series of what a broker coordinates: groups and transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Final

from prometheus_client.metrics_core import Metric

from purgatorio.admin.metrics.family import Tables, counter, families, gauge
from purgatorio.admin.metrics.replicas import STEP, Steps
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.txn.overview import TransactionNumbers

MAX_GROUPS: Final = 500
"""The most groups of a broker whose lag is shown."""
MAX_OFFSETS: Final = 10_000
"""The most committed offsets of a broker that a scrape reads; a broker may keep many more."""

_STATES: Final = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "Stable",
    "Empty",
    "Dead",
)


_GROUPS_IN: Final[Tables[Counter[str]]] = {
    "kafka_coordinator_group_groupmetadatamanager_numgroups": (
        (gauge, "", "Groups that this broker coordinates.", Counter.total),
        *((gauge, state.lower(), f"Groups in the state {state}.", itemgetter(state)) for state in _STATES),
    )
}
_GROUPS: Final[Tables[Groups]] = {
    "kafka_coordinator_group_groupmetadatamanager_": (
        (gauge, "numoffsets", "Committed offsets of these groups.", lambda g: g.offset_count),
    ),
    "kafka_server_group_coordinator_metrics_": (
        (counter, "offset_commit", "Offsets that groups have committed.", lambda g: g.commit_count),
        (counter, "offset_expiration", "Committed offsets that expired.", lambda g: g.expiration_count),
    ),
    "purgatorio_transactional_": (
        (
            gauge,
            "offsets",
            "Offsets of groups that open transactions have written.",
            lambda g: g.transactional_offset_count,
        ),
    ),
}


def group_steps(brokers: Sequence[Broker], *, per_partition: bool) -> Steps:
    """Yield the families about groups, once each, and None between steps of bounded work.

    Args:
        per_partition: whether each partition has a series of lag; else that of a topic is the sum of its partitions'.
    """
    states = []
    for broker in brokers:
        counted: Counter[str] = Counter()
        for nth, state in enumerate(broker.groups.states(), 1):
            counted[state] += 1
            if nth % STEP == 0:
                yield None
        states.append(counted)
    yield from families(_GROUPS, [(broker, broker.groups) for broker in brokers])
    yield from families(_GROUPS_IN, list(zip(brokers, states, strict=True)))
    yield from _lag_steps(brokers, per_partition)


def _lag_steps(brokers: Sequence[Broker], per_partition: bool) -> Steps:
    labels = ("consumergroup", "topic", "partition") if per_partition else ("consumergroup", "topic")
    lag = gauge(
        "kafka_consumergroup_lag",
        f"Records that a group has yet to consume; of {MAX_GROUPS} groups of a coordinator at most.",
        *labels,
    )
    for broker in brokers:
        lags: dict[tuple[str, ...], int] = {}
        for nth, (group_id, tp, offset) in enumerate(broker.groups.committed(MAX_GROUPS, MAX_OFFSETS), 1):
            end = _high_watermark(brokers, tp)
            if end is not None:
                key = (group_id, tp.topic, *((str(tp.partition),) if per_partition else ()))
                lags[key] = lags.get(key, 0) + max(0, end - offset)
            if nth % STEP == 0:
                yield None
        for nth, (key, records) in enumerate(lags.items(), 1):
            lag.add(broker, records, *key)
            if nth % STEP == 0:
                yield None
    yield lag.metric


def _high_watermark(brokers: Sequence[Broker], tp: TopicPartition) -> int | None:
    """Return the newest high watermark that a replica in this process knows; None if there is no replica."""
    replicas = (broker.replica(tp) for broker in brokers)
    return max((replica.high_watermark for replica in replicas if replica is not None), default=None)


_TRANSACTIONS: Final[Tables[TransactionNumbers]] = {
    "purgatorio_transactional_": (
        (gauge, "ids", "Transactional ids that this broker coordinates.", lambda n: n.ids),
        (counter, "ids_expired", "Transactional ids that were not used for long.", lambda n: n.expired),
    ),
    "purgatorio_transactions_": (
        (gauge, "open", "Open transactions, without those that are being ended.", lambda n: n.open),
        (counter, "committed", "Transactions that got all their commit markers.", lambda n: n.committed),
        (counter, "aborted", "Transactions that got all their abort markers.", lambda n: n.aborted),
        (counter, "timed_out", "Transactions aborted at their deadline.", lambda n: n.timed_out),
    ),
    "purgatorio_transaction_": (
        (
            gauge,
            "markers_missing",
            "End markers that leaders are still to write, of transactions whose result is decided.",
            lambda n: n.missing_markers,
        ),
        (
            counter,
            "verifications",
            "Questions of this broker's partitions whether a transaction includes them.",
            lambda n: n.verifications,
        ),
    ),
    "kafka_server_addpartitionstotxnmanager_": (
        (
            counter,
            "verificationfailurerate",
            "Such questions that were answered with an error.",
            lambda n: n.failed_verifications,
        ),
    ),
}


def transactions(brokers: Sequence[Broker]) -> Iterator[Metric]:
    """Yield the families about transactions."""
    return families(_TRANSACTIONS, [(broker, broker.coordinators.transaction_numbers) for broker in brokers])
