"""Why an operation on a cluster was not done.

::

    OperationRefused
    ├── Invalid
    ├── NotThere
    ├── ClusterUnavailable
    │   ├── AwaitsElection
    │   ├── Elsewhere
    │   ├── LeaderRefuses
    │   └── MayBeDone
    │       └── TimedOut
    └── NotInSync
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from purgatorio.broker.log.topic_partition import TopicPartition

PARTITIONS_NAMED: Final = 10
"""Partitions that a message names at most."""
NAMES_COMPARED: Final = 200
"""Names among which a refusal looks for the one nearest to a wrong name; it takes 5 ms."""


class OperationRefused(Exception):
    """The state of the cluster does not allow the operation. The message says what was changed, if anything was."""


class Invalid(OperationRefused):
    """No state of the cluster would allow the operation."""


class NotThere(OperationRefused):
    """There is no such broker, topic or partition."""


class ClusterUnavailable(OperationRefused):
    """No broker runs, or the metadata store does not answer; a later attempt may succeed."""


class AwaitsElection(ClusterUnavailable):
    """A leader does not run, or does not lead yet; when its lease is over, another one is elected."""


class Elsewhere(ClusterUnavailable):
    """A broker of another process leads what is asked for; its process may answer. Nothing was changed."""


class LeaderRefuses(ClusterUnavailable):
    """The leader refuses records, which it has not appended: no other process would do it."""


class MayBeDone(ClusterUnavailable):
    """The change was begun, and may be made or not: to ask again, here or elsewhere, could make it twice."""


class TimedOut(MayBeDone):
    """Records are in the leader's log, and the in-sync replicas do not have them within the time limit."""


class NotInSync(OperationRefused):
    """Replicas were not in sync within the time limit."""

    def __init__(self, partitions: Sequence[TopicPartition], time_limit_ms: float) -> None:
        super().__init__(f"not fully in sync after {time_limit_ms / 1000:g} s: {named(partitions)}")
        self.partitions = tuple(partitions)


def no_broker(broker_id: int, known: Iterable[int]) -> NotThere:
    """Return the refusal for a broker that does not exist."""
    return NotThere(f"there is no broker {broker_id}, only {', '.join(map(str, known))}")


def named(partitions: Sequence[TopicPartition]) -> str:
    """The names of the first `PARTITIONS_NAMED` partitions, and how many more there are, for a message."""
    first = ", ".join(map(str, partitions[:PARTITIONS_NAMED]))
    further = len(partitions) - PARTITIONS_NAMED
    return first if further <= 0 else f"{first} and {further} more"
