"""Operations that save what a cluster has, and make it so again; and one that makes it as it was at its start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from purgatorio.admin.operations.declare import Answer, Limits, Operation, arg

if TYPE_CHECKING:
    from purgatorio.admin.operations.operator import Operator
    from purgatorio.broker.cluster.snapshots import Snapshot

MAX_TOPICS_SHOWN: Final = 100
RESTORE_SECONDS: Final = 180.0
"""How long a command waits for a restore: for the filling, and twice the time that brokers have to take their roles."""
_NAME: Final = "the snapshot's name, as listed"


class ListSnapshots(Operation, http="GET /snapshots", command="snapshot list", answered_by="nobody"):
    """The snapshots that were taken here, oldest first."""

    async def run(self, operator: Operator) -> Answer:
        return {"snapshots": [_shown(name, each) for name, each in operator.snapshots.items()]}


class TakeSnapshot(Operation, http="POST /snapshots", command="snapshot take", answered_by="nobody"):
    """Save topics, records, groups, producers and transactions; up to 10 are kept."""

    name: Annotated[str, Limits(min_length=1, max_length=100)] | None = arg(
        "a name; a number if it is not given", default=None, positional=True
    )

    async def run(self, operator: Operator) -> Answer:
        name = operator.snapshots.keep(self.name, operator.cluster.snapshot)
        return _shown(name, operator.snapshots.find(name))


class RestoreSnapshot(
    Operation,
    http="POST /snapshots/{name:path}/restore",
    command="snapshot restore",
    patience_seconds=RESTORE_SECONDS,
    answered_by="nobody",
):
    """Make the cluster as it was at a snapshot: all brokers are replaced, clients connect again."""

    name: str = arg(_NAME)

    async def run(self, operator: Operator) -> Answer:
        """Restore it, even if the client goes; it can be done again."""
        snapshot = operator.snapshots.find(self.name)
        await operator.control.complete(operator.cluster.restore(snapshot))
        return _shown(self.name, snapshot)


class Reset(Operation, http="POST /reset", patience_seconds=RESTORE_SECONDS, answered_by="nobody"):
    """Make the cluster as it was at its start: other topics, records, groups, faults and moves of time are gone."""

    async def run(self, operator: Operator) -> Answer:
        """Do it, even if the client goes: all brokers are replaced, clients connect again."""
        from purgatorio.admin.operations.reading.members import connected_clients

        def begun() -> None:
            operator.before_reset = frozenset(connected_clients(operator.cluster.brokers))
            operator.clock.reset()

        await operator.control.complete(operator.cluster.reset(begun))
        return {"state": "reset"}


class RemoveSnapshot(
    Operation,
    http="DELETE /snapshots/{name:path}",
    command="snapshot remove",
    says="snapshot {name} is removed",
    answered_by="nobody",
):
    """Forget a snapshot."""

    name: str = arg(_NAME)

    async def run(self, operator: Operator) -> Answer:
        shown = _shown(self.name, operator.snapshots.find(self.name))
        operator.snapshots.forget(self.name)
        return shown


def _shown(name: str, snapshot: Snapshot) -> Answer:
    from purgatorio.broker.metadata.topic_name import is_internal

    topics = [each for each in sorted(snapshot.topics) if not is_internal(each)]
    return {
        "name": name,
        "topics": topics[:MAX_TOPICS_SHOWN],
        "topic_count": len(topics),
        "size_bytes": sum(saved.size_bytes for saved in snapshot.logs.values()),
    }
