"""A share group, as a test sees it: which records are in flight, with which member, for how long (KIP-932)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from purgatorio.late import dataclass
from purgatorio.testing.loop_thread import LoopThread
from purgatorio.testing.waiting import WAIT_SECONDS, Waiting

if TYPE_CHECKING:
    from purgatorio.broker.operations.declare import Operation

POLL_SECONDS: Final = 0.001
"""The time between two looks at a group."""

State = Literal["available", "acquired", "acknowledged", "archiving", "archived", "hole"]


@dataclass(frozen=True, slots=True)
class InFlight:
    """Neighbouring records of a partition that a share group has not done with, or has done out of turn.

    Attributes:
        first_offset, last_offset: both included.
        state: "available", "acquired", "acknowledged", "archiving" (on the way to the dead-letter topic), "archived",
            or "hole": no member gets these offsets, as of an aborted transaction.
        delivery_count: how often they were delivered.
        member: the id of the member that has acquired them; None in other states.
        lock_left_ms: until they are available again, on the brokers' clock.
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    state: State
    delivery_count: int
    member: str | None
    lock_left_ms: int | None

    @property
    def offsets(self) -> range:
        """The offsets."""
        return range(self.first_offset, self.last_offset + 1)


class _Controls(Protocol):
    def do(self, operation: Operation) -> Awaitable[dict[str, Any]]:
        """Do an operation, and return its answer."""


class ShareGroup:
    """A share group of a running cluster: ``kafka.share_group("jobs")``. It need not exist yet.

    Args:
        thread: the cluster's.

    Attributes:
        name: its id.
    """

    def __init__(self, name: str, thread: LoopThread, controls: _Controls) -> None:
        self.name = name
        self._thread = thread
        self._controls = controls

    def __repr__(self) -> str:
        return f"<ShareGroup {self.name}>"

    def in_flight(self, *, state: State | None = None, member: str | None = None) -> list[InFlight]:
        """Return the records from each partition's start offset to its end offset, by partition and offset.

        A partition is listed while a member fetches from it. Records are acknowledged or archived here only as long as
        others before them are neither.

        Args:
            state, member: only those in this state, or that this member has acquired.
        """
        return self._thread.run(self._read(state, member), f"read share group {self.name!r}")

    def acquired(self, *, member: str | None = None) -> list[InFlight]:
        """Return the records that members have acquired, or that one of them has."""
        return self.in_flight(state="acquired", member=member)

    @property
    def archived(self) -> list[InFlight]:
        """The records that were given up, while others before them are in flight."""
        return self.in_flight(state="archived")

    @property
    def members(self) -> list[str]:
        """The ids of the members that fetch."""
        return list(self._described()["members"])

    def start_offsets(self) -> Mapping[tuple[str, int], int]:
        """Return the start offset (SPSO) of each partition: all records below it are acknowledged or archived."""
        return {(row["topic"], row["partition"]): row["start_offset"] for row in self._described()["partitions"]}

    def until_acquired(
        self, count: int = 1, *, member: str | None = None, timeout_seconds: float = WAIT_SECONDS
    ) -> Waiting[list[InFlight]]:
        """Wait, with ``await`` or ``.wait()``, until members have acquired this many records; return them."""
        what = f"{count} acquired records of share group {self.name!r}" + (f" of member {member}" if member else "")
        return Waiting(self._thread.start(self._until_acquired(count, member), what), what, timeout_seconds)

    def expire_locks(self, *, member: str | None = None) -> int:
        """Let the time of all acquisition locks be over now, or of one member's; return how many there were.

        As when share.record.lock.duration.ms is over: the records go to the next member, or are given up if they were
        delivered share.delivery.count.limit times. ``kafka.clock.advance(30)`` does the same for locks that are as old.
        """
        from purgatorio.broker.operations.share_groups import ExpireLocks

        done = self._controls.do(ExpireLocks(id=self.name, member=member))
        expired: int = self._thread.run(_of(done), f"expire the locks of share group {self.name!r}")["expired"]
        return expired

    def _described(self) -> dict[str, Any]:
        return self._thread.run(self._describe(), f"read share group {self.name!r}")

    async def _describe(self) -> dict[str, Any]:
        from purgatorio.broker.operations.share_groups import DescribeShareGroup

        return await self._controls.do(DescribeShareGroup(id=self.name))

    async def _read(self, state: State | None, member: str | None) -> list[InFlight]:
        described = await self._describe()
        found = [_in_flight(row, batch) for row in described["partitions"] for batch in row["batches"]]
        return [each for each in found if state in (None, each.state) and member in (None, each.member)]

    async def _until_acquired(self, count: int, member: str | None) -> list[InFlight]:
        while True:
            found = await self._read("acquired", member)
            if sum(len(each.offsets) for each in found) >= count:
                return found
            await asyncio.sleep(POLL_SECONDS)


async def _of(done: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    return await done


def _in_flight(row: Mapping[str, Any], batch: Mapping[str, Any]) -> InFlight:
    return InFlight(
        row["topic"],
        row["partition"],
        batch["first_offset"],
        batch["last_offset"],
        batch["state"],
        batch["delivery_count"],
        batch["member"],
        batch["lock_left_ms"],
    )
