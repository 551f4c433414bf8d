"""What a test does to the brokers' time, in the cluster's own event loop; `KafkaClock` and `Kafka` do it elsewhere."""

from __future__ import annotations

from purgatorio.broker.causes.words import in_words
from purgatorio.broker.cluster import Cluster
from purgatorio.broker.operations.control.clock_control import ClockControl, EndedOperation
from purgatorio.broker.time.movable_clock import MovableClock
from purgatorio.testing.timeline import Timeline
from purgatorio.testing.values import Advanced, Ended


class TimeControls:
    """Moves the clock of a running cluster.

    Args:
        cluster: the cluster.
        clock: its clock.
        timeline: has its changes of leaders and in-sync replicas.
    """

    def __init__(self, cluster: Cluster, clock: MovableClock, timeline: Timeline) -> None:
        self._cluster = cluster
        self.clock = clock
        self._timeline = timeline
        self._control = ClockControl(cluster)

    async def advance(self, seconds: float, *, sessions: bool) -> Advanced:
        """Move the clock; return what ended by it. See `KafkaClock.advance`.

        Raises:
            ValueError: `seconds` is negative, too large or no number.
        """
        known = self._timeline.total
        ended = await self._control.advance(seconds, sessions=sessions)
        changes = tuple(f"{each.partition}: {each.what}" for each in self._timeline.since(known))
        return Advanced(seconds, tuple(map(_ended, ended)), changes)


def _ended(ended: EndedOperation) -> Ended:
    operation = ended.operation
    return Ended(
        ended.broker_id,
        operation.purgatory,
        operation.client,
        tuple(map(str, operation.keys)),
        in_words(operation.causes),
        tuple(operation.causes),
        operation.done_ms - operation.parked_ms,
    )
