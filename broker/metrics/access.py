"""The series of refusals by ACLs; none without an authorizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.metrics_core import Metric

from purgatorio.broker.metrics.family import api_name, counter
from purgatorio.broker.metrics.views import BrokerView


def refusals(brokers: Sequence[BrokerView]) -> Iterator[Metric]:
    """Yield how often an operation on a resource was refused, by API, operation and type of resource."""
    if all(broker.access is None for broker in brokers):
        return
    denied = counter(
        "purgatorio_acl_denied", "Operations on resources that ACLs refused.", "request", "operation", "resource"
    )
    for broker in brokers:
        if broker.access is not None:
            for (key, operation, kind), count in broker.access.audit.denied.items():
                denied.add(broker, count, api_name(key), operation.name, kind.name)
    yield denied.metric
