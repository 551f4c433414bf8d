"""Controls of the brokers of a cluster, for any thread: the part of `Kafka` that is about brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from purgatorio.testing.loop_thread import CALL_TIMEOUT_SECONDS, LoopThread

if TYPE_CHECKING:
    from purgatorio.admin.cluster import Cluster
    from purgatorio.admin.operations.brokers import ChangeFollower, KillBroker, StartBroker, StopBroker
    from purgatorio.admin.operations.declare import Operation
    from purgatorio.testing.backend import Backend
    from purgatorio.testing.controls import Controls

T = TypeVar("T")


class BrokerControls:
    """Stops, holds, cuts off and moves brokers; `Kafka` is one, and sets the attributes."""

    _thread: LoopThread
    _backend: Backend

    @property
    def _controls(self) -> Controls:
        from purgatorio.testing.controls import Controls

        return Controls(self._backend)

    @property
    def _cluster(self) -> Cluster:
        """The cluster; a ValueError with a sentence if its brokers are other processes."""
        return self._backend.cluster

    def do(self, operation: Operation) -> dict[str, Any]:
        """Do an operation of the admin HTTP, and return its answer; all of them are in `purgatorio.admin.operations`.

        ::

            kafka.do(topics.ElectLeaders("orders", unclean=True))

        Raises:
            ValueError: the cluster refuses it, with its sentence.
        """
        return self._do(operation, operation.does().partition(";")[0])

    @property
    def brokers(self) -> Sequence[int]:
        """The ids of the running brokers."""
        return self._thread.run(self._controls.running(), "list the brokers")

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the id of the broker that leads a partition.

        Raises:
            ValueError: the topic or partition does not exist, or has no leader now.
        """
        from purgatorio.admin.operations.topics import FindLeader

        return int(self._do(FindLeader(topic, partition), f"find {topic}'s leader")["leader"])

    def move_leader(self, topic: str, partition: int = 0, *, to: int | None = None) -> int:
        """Have an in-sync replica lead a partition; return its id, when all brokers know. No record is lost.

        The brokers' preferred leader election takes it back after five minutes (leader.imbalance.check.interval.seconds
        of Kafka), which `clock.advance` brings nearer; ``cluster(auto_leader_rebalance_enable=False)`` prevents that.

        Args:
            topic, partition: what it leads.
            to: the broker; None: any other in-sync replica.

        Raises:
            ValueError: there is no such partition, or that broker is not an in-sync replica that lives.
        """
        from purgatorio.admin.operations.topics import MoveLeader

        return int(self.do(MoveLeader(topic, partition, to))["leader"])

    def no_leader(self, topic: str, partition: int = 0) -> None:
        """Take a partition's leader away: clients get LEADER_NOT_AVAILABLE or NOT_LEADER_OR_FOLLOWER.

        It ends with `move_leader`, or when a broker stops, dies or starts, at which leaders are elected.

        Raises:
            ValueError: there is no such partition.
        """
        from purgatorio.admin.operations.topics import NoLeader

        self.do(NoLeader(topic, partition))

    def move_coordinator(
        self, *, group: str | None = None, transactional_id: str | None = None, to: int | None = None
    ) -> int:
        """Move the coordinator of a group or of a transactional id to another broker; return its id.

        All groups of the same partition of ``__consumer_offsets`` move with it.

        Raises:
            ValueError: not one of both is named, no client has used a coordinator yet, or the broker is not in sync.
        """
        from purgatorio.admin.operations.groups import MoveGroupCoordinator
        from purgatorio.admin.operations.transactions import MoveTransactionCoordinator

        if group is not None and transactional_id is None:
            return int(self.do(MoveGroupCoordinator(group, to))["coordinator"])
        if transactional_id is not None and group is None:
            return int(self.do(MoveTransactionCoordinator(transactional_id, to))["coordinator"])
        raise ValueError("name either a group or a transactional_id")

    def apply_retention(self) -> None:
        """Have the brokers delete now what is older than retention.ms or beyond retention.bytes.

        Whole segments are deleted, and the newest one only by time; brokers do so by themselves every five minutes.
        """
        from purgatorio.admin.operations.topics import ApplyRetention

        self.do(ApplyRetention())

    def compact(self, topic: str | None = None) -> None:
        """Have the brokers compact now what is committed: each key keeps its newest record.

        The brokers' cleaner does so by itself every 15 s, with what lies in closed segments, if enough of it is new;
        this also closes the active segments before, and asks for no share of new records. Tombstones stay for
        delete.retention.ms (a day): move the clock, and compact again.

        Args:
            topic: only this one; None: all topics whose cleanup.policy has compact, those for groups too.

        Raises:
            ValueError: there is no such topic, or it is not compacted.
        """
        from purgatorio.admin.operations.topics import Compact

        self.do(Compact(topic))

    def hold_follower(self, broker: int) -> None:
        """Have a broker fetch nothing from leaders: what it follows is not acknowledged, acks=all waits for it.

        The answer to a fetch that is under way waits at the broker, too: it gets no record that was produced since.
        """
        from purgatorio.admin.operations.brokers import ChangeFollower

        self._change(ChangeFollower(broker, held=True), f"hold follower {broker}")

    def release(self, broker: int | None = None) -> None:
        """Let a held follower, or all of them, fetch again."""
        from purgatorio.admin.operations.brokers import ChangeFollower

        for each in self.brokers if broker is None else [broker]:
            self._change(ChangeFollower(each, held=False), f"release follower {each}")

    def kill(self, broker: int) -> None:
        """End a broker as a crash would. The others notice when its lease runs out."""
        from purgatorio.admin.operations.brokers import KillBroker

        self._change(KillBroker(broker), f"kill broker {broker}")

    def stop(self, broker: int) -> None:
        """Stop a broker in good order: the others take over its partitions first."""
        from purgatorio.admin.operations.brokers import StopBroker

        self._change(StopBroker(broker, force=True), f"stop broker {broker}")

    def start(self, broker: int) -> None:
        """Start a stopped or killed broker on the port that it had, with empty logs."""
        from purgatorio.admin.operations.brokers import StartBroker

        self._change(StartBroker(broker), f"start broker {broker}")

    def add_broker(self, *, rack: str | None = None) -> int:
        """Start one more broker; return its id when all others know it. Clients learn of it by their metadata.

        It has no partitions; topics that are created from now on may have replicas there. `reset` takes it away.

        Args:
            rack: its rack; None: the next one of those that the cluster was given, if any.
        """
        from purgatorio.admin.operations.brokers import AddBroker

        return int(self.do(AddBroker(rack))["broker"])

    def pause(self, broker: int) -> None:
        """Have a broker stand still until `resume`, as SIGSTOP does to a process.

        Its connections stay open, new ones are accepted, and nothing is read or answered; it sends no heartbeat, so the
        others fence it when its lease runs out, and lead its partitions. One thing differs from SIGSTOP: the broker's
        own timeouts run on, and their answers are sent when it goes on.

        Raises:
            ValueError: there is no such broker, or it does not run.
        """
        from purgatorio.admin.operations.brokers import PauseBroker

        self.do(PauseBroker(broker))

    def resume(self, broker: int | None = None) -> None:
        """Let a broker that stands still, or all of them, go on: it gets a new lease and follows the new leaders.

        Raises:
            ValueError: there is no such broker.
        """
        from purgatorio.admin.operations.brokers import ResumeBroker, ResumeBrokers

        self.do(ResumeBrokers() if broker is None else ResumeBroker(broker))

    def partition(self, *groups: Sequence[int]) -> None:
        """Cut the network between groups of brokers until `heal`: ``kafka.partition([1], [2, 3])``.

        Packets are lost and no connection is closed. The largest group, of equal ones the first, keeps the metadata
        store; brokers of other groups lose their leases, and are fenced. Clients and brokers that are in no group reach
        all brokers.

        Raises:
            ValueError: there are fewer than two groups, a broker is in two, or there is none of that id.
        """
        from purgatorio.admin.operations.network import PartitionNetwork

        self.do(PartitionNetwork([list(group) for group in groups]))

    def heal(self) -> None:
        """End a partition: what was held on the way arrives."""
        from purgatorio.admin.operations.network import HealNetwork

        self.do(HealNetwork())

    def _do(self, operation: Operation, doing: str) -> dict[str, Any]:
        self._backend.load([type(operation)])
        longest = max(CALL_TIMEOUT_SECONDS, operation.patience_seconds)
        return self._thread.run(self._backend.ask(operation), doing, longest)

    def _change(self, operation: ChangeFollower | KillBroker | StartBroker | StopBroker, doing: str) -> None:
        """Do an operation on a broker; a BrokerStateError if it does not run, or does, or there is none of that id."""
        self._backend.load([type(operation)])
        self._thread.run(self._controls.change_broker(operation), doing)

    def _run(self, change: Coroutine[Any, Any, T], doing: str) -> T:
        """Run a change of the cluster, which may refuse it: a ValueError then."""
        from purgatorio.testing.in_loop import refused_as_value_error

        async def changed() -> T:
            with refused_as_value_error():
                return await change

        return self._thread.run(changed(), doing)

    def _refusable(self, change: Callable[[], T], doing: str) -> T:
        """Make a change of the cluster, which may refuse it: a ValueError then."""

        async def changed() -> T:
            return change()

        return self._run(changed(), doing)

    def _call(
        self, function: Callable[[], T | Awaitable[T]], doing: str, timeout_seconds: float = CALL_TIMEOUT_SECONDS
    ) -> T:
        return self._thread.call(function, doing, timeout_seconds)
