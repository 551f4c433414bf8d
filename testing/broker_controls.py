"""What a test does to the brokers of a cluster, from any thread: the part of `Kafka` that is about brokers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from purgatorio.testing.loop_thread import LoopThread

if TYPE_CHECKING:
    from purgatorio.broker.cluster import Cluster
    from purgatorio.testing.controls import Controls

T = TypeVar("T")


class BrokerControls:
    """Stops, holds, cuts off and moves brokers; `Kafka` is one, and sets the attributes."""

    _thread: LoopThread
    _controls: Controls
    _cluster: Cluster

    @property
    def brokers(self) -> Sequence[int]:
        """The ids of the running brokers."""
        return self._call(lambda: [each.broker_id for each in self._cluster.brokers], "list the brokers")

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the id of the broker that leads a partition.

        Raises:
            ValueError: the topic or partition does not exist, or has no leader now.
        """
        return self._call(lambda: self._controls.leader(topic, partition).broker_id, f"find {topic}'s leader")

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
        moved = self._cluster.leadership.move_leader(topic, partition, to)
        return self._run(moved, f"move the leader of {topic}-{partition}")

    def no_leader(self, topic: str, partition: int = 0) -> None:
        """Take a partition's leader away: clients get LEADER_NOT_AVAILABLE or NOT_LEADER_OR_FOLLOWER.

        It ends with `move_leader`, or when a broker stops, dies or starts, at which leaders are elected.

        Raises:
            ValueError: there is no such partition.
        """
        self._run(self._cluster.leadership.no_leader(topic, partition), f"take {topic}-{partition}'s leader")

    def move_coordinator(
        self, *, group: str | None = None, transactional_id: str | None = None, to: int | None = None
    ) -> int:
        """Move the coordinator of a group or of a transactional id to another broker; return its id.

        All groups of the same partition of ``__consumer_offsets`` move with it.

        Raises:
            ValueError: not one of both is named, no client has used a coordinator yet, or the broker is not in sync.
        """
        kind: Literal["group", "transaction"]
        kind, name = ("group", group) if group is not None else ("transaction", transactional_id)
        if name is None or (group is not None and transactional_id is not None):
            raise ValueError("name either a group or a transactional_id")
        moved = self._cluster.leadership.move_coordinator(kind, name, to)
        return self._run(moved, f"move the coordinator of {name}")

    def apply_retention(self) -> None:
        """Have the brokers delete now what is older than retention.ms or beyond retention.bytes.

        Whole segments are deleted, and the newest one only by time; brokers do so by themselves every five minutes.
        """
        self._thread.run(self._controls.apply_retention(), "apply retention")

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
        self._run(self._controls.compact(topic), f"compact {topic or 'all topics'}")

    def hold_follower(self, broker: int) -> None:
        """Have a broker fetch nothing from leaders: what it follows is not acknowledged, acks=all waits for it.

        The answer to a fetch that is under way waits at the broker, too: it gets no record that was produced since.
        """
        self._call(lambda: self._controls.hold_follower(broker), f"hold follower {broker}")

    def release(self, broker: int | None = None) -> None:
        """Let a held follower, or all of them, fetch again."""
        self._call(lambda: self._controls.release(broker), "release followers")

    def kill(self, broker: int) -> None:
        """End a broker as a crash would. The others notice when its lease runs out."""
        self._thread.run(self._cluster.kill_broker(broker), f"kill broker {broker}")

    def stop(self, broker: int) -> None:
        """Stop a broker in good order: the others take over its partitions first."""
        self._thread.run(self._cluster.stop_broker(broker), f"stop broker {broker}")

    def start(self, broker: int) -> None:
        """Start a stopped or killed broker on the port that it had, with empty logs."""
        self._thread.run(self._cluster.start_broker(broker), f"start broker {broker}")

    def add_broker(self, *, rack: str | None = None) -> int:
        """Start one more broker; return its id when all others know it. Clients learn of it by their metadata.

        It has no partitions; topics that are created from now on may have replicas there. `reset` takes it away.

        Args:
            rack: its rack; None: the next one of those that the cluster was given, if any.
        """
        return self._thread.run(self._controls.add_broker(rack), "add a broker")

    def pause(self, broker: int) -> None:
        """Have a broker stand still until `resume`, as SIGSTOP does to a process.

        Its connections stay open, new ones are accepted, and nothing is read or answered; it sends no heartbeat, so the
        others fence it when its lease runs out, and lead its partitions. What only the broker itself could notice is
        not as with SIGSTOP: its own timeouts run on, and answers that they lead to are sent when it goes on.

        Raises:
            ValueError: there is no such broker, or it does not run.
        """
        self._refusable(lambda: self._cluster.network.pause(broker), f"pause broker {broker}")

    def resume(self, broker: int | None = None) -> None:
        """Let a broker that stands still, or all of them, go on: it gets a new lease and follows the new leaders.

        Raises:
            ValueError: there is no such broker.
        """
        self._refusable(lambda: self._cluster.network.resume(broker), "resume brokers")

    def partition(self, *groups: Sequence[int]) -> None:
        """Cut the network between groups of brokers until `heal`: ``kafka.partition([1], [2, 3])``.

        Packets are lost and no connection is closed. The largest group, of equal ones the first, keeps the metadata
        store; brokers of other groups lose their leases, and are fenced. Clients and brokers that are in no group reach
        all brokers.

        Raises:
            ValueError: there are fewer than two groups, a broker is in two, or there is none of that id.
        """
        self._refusable(lambda: self._cluster.network.partition(groups), "partition the network")

    def heal(self) -> None:
        """End a partition: what was held on the way arrives."""
        self._call(self._cluster.network.heal, "heal the network")

    def _run(self, change: Coroutine[Any, Any, T], doing: str) -> T:
        """Run a change of the cluster, which may refuse it: a ValueError then."""
        return self._thread.run(self._controls.asked(change), doing)

    def _refusable(self, change: Callable[[], T], doing: str) -> T:
        """Make a change of the cluster, which may refuse it: a ValueError then."""

        async def changed() -> T:
            return change()

        return self._run(changed(), doing)

    def _call(self, function: Callable[[], T], doing: str) -> T:
        return self._thread.call(function, doing)
