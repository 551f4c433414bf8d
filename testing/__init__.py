"""Kafka in tests: a cluster of brokers on real TCP in milliseconds, held, broken and moved in time as a test wants it.

With pytest there is nothing to import::

    def test_orders(kafka):
        kafka.topic("orders", partitions=3)
        producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap})

Without pytest::

    with purgatorio.testing.cluster(brokers=3) as kafka:
        print(kafka.bootstrap)

`Kafka` is what the fixture `kafka` and `cluster()` hand out. Its names are the same over HTTP and in data
(docs/testing.md).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from purgatorio.testing.access_controls import Quota
    from purgatorio.testing.clock import KafkaClock
    from purgatorio.testing.faults import Fault
    from purgatorio.testing.kafka import Kafka, cluster
    from purgatorio.testing.share_groups import DeadLetter
    from purgatorio.testing.tier import KafkaTier, TierSegment
    from purgatorio.testing.values import Advanced, Ended, Group, Parked, Record, Request

_PLACES = {
    "Advanced": "values",
    "DeadLetter": "share_groups",
    "Ended": "values",
    "Fault": "faults",
    "Group": "values",
    "Kafka": "kafka",
    "KafkaClock": "clock",
    "KafkaTier": "tier",
    "Parked": "values",
    "Quota": "access_controls",
    "Record": "values",
    "Request": "values",
    "ShareGroup": "share_groups",
    "TierSegment": "tier",
    "cluster": "kafka",
}

__all__ = [
    "Advanced",
    "DeadLetter",
    "Ended",
    "Fault",
    "Group",
    "Kafka",
    "KafkaClock",
    "KafkaTier",
    "Parked",
    "Quota",
    "Record",
    "Request",
    "ShareGroup",
    "TierSegment",
    "cluster",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used; none of them imports the broker, which the first cluster does."""
    if name in _PLACES:
        return getattr(import_module(f"purgatorio.testing.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
