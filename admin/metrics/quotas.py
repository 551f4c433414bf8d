"""The series of client quotas, under the names of Kafka's MBeans; none while no client has a quota (KAFKA-5402).

A series has the names of the user, URL-escaped as in Kafka, and of the client id; the dimension that the quota does not
use is empty. Only clients under a quota have one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Any, Final
from urllib.parse import quote_plus

from prometheus_client.metrics_core import HistogramMetricFamily, Metric

from purgatorio.admin.metrics.family import Family, api_name, gauge
from purgatorio.admin.metrics.replicas import Steps
from purgatorio.broker.layers.quotas.client_rates import ClientAccounts
from purgatorio.broker.layers.quotas.throttle import BUCKETS_MS, QuotaKind
from purgatorio.broker.node.broker import Broker

MAX_CLIENTS: Final = 1_000
"""Clients with series, by kind of quota, those that were charged last: client ids may be random."""

STEP: Final = 100
"""Clients that are read in one turn of the event loop."""

_RATES: Final = {
    QuotaKind.PRODUCE: ("byte_rate", "Bytes of Produce requests per second."),
    QuotaKind.FETCH: ("byte_rate", "Bytes of answers to consumers per second."),
    QuotaKind.REQUEST: ("request_time", "Time of requests in percent of the event loop's."),
}


def quota_steps(brokers: Sequence[Broker]) -> Steps:
    """Yield the families about quotas, and None between steps of bounded work."""
    yield from _connections([broker for broker in brokers if broker.quotas.connections.is_active])
    yield from _replication(brokers)
    brokers = [broker for broker in brokers if broker.quotas.is_active]
    if not brokers:
        return
    for kind in QuotaKind:
        yield from _clients(brokers, kind)
        queue = gauge(f"kafka_server_{kind.lower()}_queue_size", "Connections that such a quota mutes now.")
        for broker in brokers:
            queue.add(broker, broker.quotas.charges.muting.muted[kind])
        yield queue.metric
    exempt = gauge("kafka_server_request_exempt_request_time", "Time of requests that no quota is about, in percent.")
    for broker in brokers:
        charges = broker.quotas.charges
        exempt.add(broker, charges.exempt.per_second(charges.clock.now_ms()))
    yield exempt.metric
    yield _throttle_times(brokers)


def _replication(brokers: Sequence[Broker]) -> Iterator[Metric]:
    """Yield the rates of throttled replicas, where a broker has a limit."""
    leaders = [(broker, broker.replicas.leader_throttle) for broker in brokers]
    followers = [(broker, broker.replicas.follower_throttle) for broker in brokers]
    for name, throttles in (("leaderreplication", leaders), ("followerreplication", followers)):
        rate = gauge(f"kafka_server_{name}_byte_rate", "Bytes per second of the replicas that topics list.")
        limited = [(broker, each) for broker, each in throttles if each.limit is not None]
        for broker, throttle in limited:
            rate.add(broker, throttle.per_second())
        if limited:
            yield rate.metric


def _connections(brokers: Sequence[Broker]) -> Iterator[Metric]:
    """Yield how long connections of addresses that came too fast were kept before they were closed."""
    name = "kafka_server_socket_server_metrics_ip_connection_accept_throttle_time"
    kept = gauge(name, "Average time that connections of addresses above their quota were kept, in ms.")
    for broker in brokers:
        rates, now_ms = broker.quotas.connections, broker.quotas.charges.clock.now_ms()
        kept.add(broker, rates.refused_ms.value(now_ms) or 0.0)
    if brokers:
        yield kept.metric


def _clients(brokers: Sequence[Broker], kind: QuotaKind) -> Steps:
    prefix, labels = f"kafka_server_{kind.lower()}", ("user", "client_id")
    read: dict[str, tuple[Family, Callable[[Any, int], float]]] = {}
    if kind is QuotaKind.CONTROLLER_MUTATION:
        tokens = gauge(f"{prefix}_tokens", "Partitions that clients may change now; negative: overdrawn.", *labels)
        read["tokens"] = tokens, lambda account, now_ms: account.meter.tokens(account.limit.value, now_ms)
        rate = gauge(f"{prefix}_mutation_rate", "Partitions that clients change per second.", *labels)
        read["rate"] = rate, lambda account, now_ms: account.meter.per_second(now_ms)
    else:
        name, doc = _RATES[kind]
        rate = gauge(f"{prefix}_{name}", doc, *labels)
        read["rate"] = rate, lambda account, now_ms: account.meter.per_second(now_ms)
    throttle = gauge(f"{prefix}_throttle_time", "Average of the throttle times that clients were told, in ms.", *labels)
    for broker in brokers:
        charges = broker.quotas.charges
        now_ms = charges.clock.now_ms()
        accounts: ClientAccounts[Any] = charges.of(kind)
        for nth, account in enumerate(list(islice(accounts.accounts(), MAX_CLIENTS))):
            if nth % STEP == 0:
                yield None
            client = quote_plus(account.limit.client.user), account.limit.client.client_id
            for family, value in read.values():
                family.add(broker, value(account, now_ms), *client)
            average_ms = account.throttle_ms.value(now_ms)
            if average_ms is not None:
                throttle.add(broker, average_ms, *client)
    for family, _ in read.values():
        yield family.metric
    yield throttle.metric


def _throttle_times(brokers: Sequence[Broker]) -> Metric:
    times = HistogramMetricFamily(
        "kafka_network_requestmetrics_throttletimems",
        "Milliseconds for which answers told clients to wait, by API; answers that told none do not count.",
        labels=("broker", "request"),
    )
    bounds = [*(str(float(bound)) for bound in BUCKETS_MS), "+Inf"]
    for broker in brokers:
        for key, told in broker.quotas.charges.times.by_api.items():
            buckets = list(zip(bounds, accumulate(told.counts), strict=True))
            times.add_metric((str(broker.metrics.broker_id), api_name(key)), buckets, told.total_ms)
    return times
