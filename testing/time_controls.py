"""What a test does to the brokers' time, in the cluster's own event loop; `KafkaClock` and `Kafka` do it elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from purgatorio.broker.cluster import Cluster
from purgatorio.broker.group.delayed_heartbeat import MemberKey
from purgatorio.broker.movable_clock import MovableClock
from purgatorio.broker.operator.clock_control import ClockControl, EndedOperation
from purgatorio.broker.operator.errors import ClusterUnavailable, NotThere
from purgatorio.broker.operator.transaction_control import TransactionControl
from purgatorio.broker.purgatory import DelayedOperation
from purgatorio.testing.timeline import Timeline
from purgatorio.testing.values import Advanced, Ended, Parked


class TimeControls:
    """Moves the clock of a running cluster, and ends single waits before their time.

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

    # --- single waits ---

    def expire(self, operation: Parked) -> None:
        """Have a parked operation's deadline come now.

        Raises:
            ValueError: it does not wait any more.
        """
        broker = next((each for each in self._cluster.brokers if each.broker_id == operation.broker), None)
        for purgatory in () if broker is None else broker.purgatories:
            found = purgatory.find(operation.id) if purgatory.name == operation.purgatory else None
            if found is not None and found.expire():
                return
        raise ValueError(
            f"{operation.purgatory} operation {operation.id} of broker {operation.broker} does not wait any more"
        )

    def expire_member(self, group: str, member: str | None) -> str:
        """End the session of a group's member now; return its member id. See `Kafka.expire_member`.

        Raises:
            ValueError: there is no such member, or more than one, or it waits for the coordinator's answer.
        """
        sessions = {key.member_id: operation for key, operation in self._sessions(group)}
        chosen = _chosen(sessions, group, member)
        if not sessions[chosen].expire():
            raise ValueError(f"member {chosen} of {group} waits for its coordinator's answer, which keeps it alive")
        return chosen

    def _sessions(self, group: str) -> Iterator[tuple[MemberKey, DelayedOperation]]:
        for broker in self._cluster.brokers:
            purgatory = next(each for each in broker.purgatories if each.name == "Heartbeat")
            for parked in purgatory.operations(limit=purgatory.num_delayed):
                key, operation = parked.keys[0], purgatory.find(parked.id)
                if isinstance(key, MemberKey) and key.group_id == group and operation is not None:
                    yield key, operation

    def expire_transaction(self, transactional_id: str) -> None:
        """End the time of an open transaction now: its coordinator aborts it.

        Raises:
            ValueError: there is no such transactional id, it has no open transaction, or its coordinator does not run.
        """
        control = TransactionControl(self._cluster, lambda: self._cluster.store.image)
        try:
            _, transaction = control.find(transactional_id)
        except (NotThere, ClusterUnavailable) as error:
            raise ValueError(str(error)) from None
        if transaction.timeout is None or not transaction.timeout.expire():
            raise ValueError(f"{transactional_id} has no open transaction")


def _chosen(sessions: Mapping[str, DelayedOperation], group: str, member: str | None) -> str:
    """Return the member id that is meant: by itself, by its client id, or as the only one."""
    named = [each for each, session in sessions.items() if member in (None, each, session.client)]
    if len(named) == 1:
        return named[0]
    known = ", ".join(f"{each} (client {session.client})" for each, session in sessions.items()) or "none"
    which = f"no member {member!r}" if member is not None and not named else f"{len(named)} such members"
    raise ValueError(f"group {group!r} has {which}; its members: {known}")


def _ended(ended: EndedOperation) -> Ended:
    operation = ended.operation
    return Ended(
        ended.broker_id,
        operation.purgatory,
        operation.client,
        tuple(map(str, operation.keys)),
        operation.detail,
        operation.done_ms - operation.parked_ms,
    )
