"""`KafkaTier`: a cluster's object store, which a test fills, holds, breaks and looks at."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Unpack, cast

from purgatorio.testing.faults import Fault
from purgatorio.testing.loop_thread import CALL_TIMEOUT_SECONDS, LoopThread

if TYPE_CHECKING:
    from purgatorio.admin.operations.declare import Answer, Operation
    from purgatorio.broker.layers.faults import AnyLive
    from purgatorio.testing.backend import Backend
    from purgatorio.testing.keywords import TierRule

OFFLOAD_SECONDS: Final = 10.0
Call = Literal["get", "put", "list", "delete"]


class TierSegment(NamedTuple):
    """A segment that the tier has; `end_offset` is the offset after its last record."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    size_bytes: int


class _Rule:
    """A fault rule as the cluster lists it, in this process or in others; each look at it is an operation."""

    def __init__(self, backend: Backend, row: Answer) -> None:
        self._backend = backend
        self._row = row
        self.id: int = row["id"]
        self.rule: str = row["text"]

    @property
    def matched(self) -> Awaitable[int]:
        """The calls that matched."""
        return self._count("matched")

    @property
    def fired(self) -> Awaitable[int]:
        """The calls on which it acted."""
        return self._count("fired")

    @property
    def held(self) -> Awaitable[int]:
        """The calls that it holds."""
        return self._count("held")

    async def release(self) -> None:
        """Remove the rule, if it is there."""
        from purgatorio.admin.operations.faults import ReleaseFault

        try:
            self._row = await self._backend.ask(ReleaseFault(self.id))
        except ValueError:  # it was removed before
            self._row = {**self._row, "held": 0}

    async def _count(self, name: str) -> int:
        from purgatorio.admin.operations.faults import ListFaults

        rows = (await self._backend.ask(ListFaults(fired=0)))["faults"]
        self._row = next((row for row in rows if row["id"] == self.id), self._row)
        found: int = self._row[name]
        return found


class KafkaTier:
    """The tier of a cluster that was started with one: ``cluster(tier=True)``.

    Holds and failures are fault rules: each is a `Fault`, which is released, or removed at the end of its ``with``;
    `Kafka.faults` lists them, and `Kafka.clear_faults` and `Kafka.reset` end them. The brokers' own time-outs go on: a
    read that is held is asked for again after 30 s of their time, five times in all.
    """

    def __init__(self, thread: LoopThread, backend: Backend) -> None:
        self._thread = thread
        self._backend = backend

    def offload(self, topic: str, *, timeout_seconds: float = OFFLOAD_SECONDS) -> int:
        """Copy all committed records of a topic to the tier, and delete them from memory; return the bytes deleted.

        It returns when all replicas have deleted them. Records behind an open transaction stay.

        Raises:
            ValueError: there is no such topic, it has no part in the tier, or the store has not taken it in time; the
                message says how far it is, and why.
        """
        from purgatorio.admin.operations.tier import Offload

        done = self._do(Offload(topic, timeout_seconds), f"offload topic {topic!r}", timeout_seconds)
        return int(done["dropped_bytes"])

    def segments(self, topic: str, partition: int | None = None) -> list[TierSegment]:
        """Return the segments that the tier has of a topic, by partition and offset, at most 1,000 of each partition.

        Raises:
            ValueError: there is no such topic, or it has no part in the tier.
        """
        from purgatorio.admin.operations.tier import MAX_SEGMENTS, ShowTier

        rows = self._do(ShowTier(topic, MAX_SEGMENTS), f"list the segments of {topic!r}")["partitions"]
        return [
            TierSegment(topic, row["partition"], each["start_offset"], each["end_offset"], each["size_bytes"])
            for row in rows
            if partition in (None, row["partition"])
            for each in row["segments"]
        ]

    def hold_reads(self, topic: str | None = None) -> Fault:
        """Hold the reads of the tier, of one topic or all, until the fault is released.

        ::

            with kafka.tier.hold_reads("orders"):
                (fetch,) = kafka.until_parked(api="RemoteFetch").wait()
                assert "to come back from the memory store" in fetch.missing

        Consumers get empty answers without an error meanwhile, after remote.fetch.max.wait.ms each.

        Raises:
            ValueError: the cluster has no tier.
        """
        return self._hold("reads", topic)

    def hold_writes(self, topic: str | None = None) -> Fault:
        """Hold the copies to the tier, of one topic or all, until the fault is released.

        Raises:
            ValueError: the cluster has no tier.
        """
        return self._hold("writes", topic)

    def fail(self, call: Call, **rule: Unpack[TierRule]) -> Fault:
        """Have calls of the object store fail: ``kafka.tier.fail("get", count=3)``.

        Args:
            call: "get" reads, "put" copies, "list" looks for segments, "delete" deletes.
            rule: which calls, and how often: `topic`, `partition`, `broker`, `nth`, `count`, `probability`. `error` is
                "Unavailable" by default, after which a broker tries again; "Refused" is for good, "NotThere" is for
                get, "Exists" for put.

        Raises:
            ValueError: the cluster has no tier, or a name or value is unknown.
        """
        return self._add({"tier": call, "error": "Unavailable", **rule})

    def corrupt(self, **rule: Unpack[TierRule]) -> Fault:
        """Have reads of the tier give back a wrong bit, which brokers notice: they read again, and then fail.

        ::

            kafka.tier.corrupt(topic="orders", count=2)

        Args:
            rule: which reads, and how often, as for `fail`.

        Raises:
            ValueError: the cluster has no tier, or a name or value is unknown.
        """
        return self._add({"tier": "get", "corrupt": True, **rule})

    def verify(self, topic: str) -> list[str]:
        """Read all objects of a topic; return what is damaged, one sentence for each segment.

        Raises:
            ValueError: there is no such topic, it has no part in the tier, or the store does not answer.
        """
        from purgatorio.admin.operations.tier import VerifyTier

        rows = self._do(VerifyTier(topic), f"verify the tier of {topic!r}", VerifyTier.patience_seconds)["damaged"]
        return [f"{topic}-{row['partition']} from offset {row['start_offset']}: {row['why']}" for row in rows]

    def _hold(self, what: Literal["reads", "writes"], topic: str | None) -> Fault:
        from purgatorio.admin.operations.tier import HoldTier

        return self._fault(self._do(HoldTier(what, topic), f"hold {what} of the tier"))

    def _add(self, rule: dict[str, Any]) -> Fault:
        from purgatorio.admin.operations.faults import AddFault

        told = {name: value for name, value in rule.items() if value is not None}
        return self._fault(self._do(AddFault(told), f"add the fault {told}"))

    def _fault(self, row: Answer) -> Fault:
        from purgatorio.admin.operations.faults import ListFaults, ReleaseFault

        self._backend.load([ListFaults, ReleaseFault])
        return Fault(self._thread, cast("AnyLive", _Rule(self._backend, row)))

    def _do(self, operation: Operation, doing: str, timeout_seconds: float = 0.0) -> Answer:
        self._backend.load([type(operation)])
        return self._thread.run(self._backend.ask(operation), doing, CALL_TIMEOUT_SECONDS + timeout_seconds)
