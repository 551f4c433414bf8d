"""A share group, as a test sees it: which records are in flight, with which member, for how long (KIP-932)."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from purgatorio.late import dataclass
from purgatorio.testing.loop_thread import LoopThread
from purgatorio.testing.values import Record
from purgatorio.testing.waiting import WAIT_SECONDS, Waiting, first

if TYPE_CHECKING:
    from purgatorio.testing.backend import Backend

"""The time between two looks at a group."""

State = Literal["available", "acquired", "acknowledged", "archiving", "archived", "dead-lettered", "hole"]


@dataclass(frozen=True, slots=True)
class InFlight:
    """Neighbouring records of a partition that a share group has not done with, or has done out of turn.

    Attributes:
        first_offset, last_offset: both included.
        state: "available", "acquired", "acknowledged", "archiving" (on the way to the dead-letter topic),
            "dead-lettered" (archived, and in the dead-letter topic), "archived", or "hole": no member gets these
            offsets, as of an aborted transaction.
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


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record of a share group's dead-letter topic, with its headers decoded (KIP-1191).

    Attributes:
        topic, partition, offset: where the record is that was given up.
        group: the share group.
        deliveries: how often it was delivered; None: the header is missing.
        reason: Kafka's words: "Offset rejected by client." or "Offset delivery count exceeded the threshold."; None:
            the header is missing.
        key, value: those of the record, if errors.deadletterqueue.copy.record.enable of the group is true; else None.
        record: the dead letter as it is in its topic.
    """

    topic: str
    partition: int
    offset: int
    group: str
    deliveries: int | None
    reason: str | None
    key: bytes | None
    value: bytes | None
    record: Record


class ShareGroup:
    """A share group of a running cluster: ``kafka.share_group("jobs")``. It need not exist yet.

    Args:
        thread: the cluster's.

    Attributes:
        name: its id.
    """

    def __init__(self, name: str, thread: LoopThread, backend: Backend) -> None:
        self.name = name
        self._thread = thread
        self._backend = backend

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
        """The records that were given up, while others before them are in flight; those with dead letters too."""
        return [each for each in self.in_flight() if each.state in ("archived", "dead-lettered")]

    def dead_letters(self, *, topic: str | None = None) -> list[DeadLetter]:
        """Return what the group has given up, as its dead-letter topic has it, by the topic's partition and offset.

        There is nothing while the topic does not exist, or one of its partitions has no leader.

        Args:
            topic: another topic than the group's errors.deadletterqueue.topic.name has now.
        """
        return self._thread.run(self._dead_letters(topic), f"read the dead letters of share group {self.name!r}")

    def until_dead_letters(
        self, count: int = 1, *, topic: str | None = None, timeout_seconds: float = WAIT_SECONDS
    ) -> Waiting[list[DeadLetter]]:
        """Wait, with ``await`` or ``.wait()``, until there are this many dead letters; return them."""
        what = f"{count} dead letters of share group {self.name!r}"
        found = first(lambda: self._dead_letters(topic), lambda letters: len(letters) >= count)
        return Waiting(self._thread.start(found, what), what, timeout_seconds)

    @property
    def members(self) -> list[str]:
        """The ids of the members that fetch."""
        return list(self._described()["members"])

    def start_offsets(self) -> Mapping[tuple[str, int], int]:
        """Return the start offset (SPSO) of each partition: all records below it are acknowledged or archived.

        A partition is listed as soon as its leader knows where the group begins: the records that come then are the
        group's.
        """
        partitions = self._described()["partitions"]
        return {(row["topic"], row["partition"]): row["start_offset"] for row in partitions if row["state"] == "active"}

    def until_acquired(
        self, count: int = 1, *, member: str | None = None, timeout_seconds: float = WAIT_SECONDS
    ) -> Waiting[list[InFlight]]:
        """Wait, with ``await`` or ``.wait()``, until members have acquired this many records; return them."""
        what = f"{count} acquired records of share group {self.name!r}" + (f" of member {member}" if member else "")
        found = first(
            lambda: self._read("acquired", member), lambda batches: sum(len(each.offsets) for each in batches) >= count
        )
        return Waiting(self._thread.start(found, what), what, timeout_seconds)

    def expire_locks(self, *, member: str | None = None) -> int:
        """Let the time of all acquisition locks be over now, or of one member's; return how many there were.

        As when share.record.lock.duration.ms is over: the records go to the next member, or are given up if they were
        delivered share.delivery.count.limit times. ``kafka.clock.advance(30)`` does the same for locks that are as old.
        """
        from purgatorio.admin.operations.share_groups import ExpireLocks

        done = self._backend.ask(ExpireLocks(id=self.name, member=member))
        expired: int = self._thread.run(_of(done), f"expire the locks of share group {self.name!r}")["expired"]
        return expired

    def _described(self) -> dict[str, Any]:
        return self._thread.run(self._describe(), f"read share group {self.name!r}")

    async def _describe(self) -> dict[str, Any]:
        from purgatorio.admin.operations.share_groups import DescribeShareGroup

        return await self._backend.ask(DescribeShareGroup(id=self.name))

    async def _read(self, state: State | None, member: str | None) -> list[InFlight]:
        described = await self._describe()
        found = [_in_flight(row, batch) for row in described["partitions"] for batch in row["batches"]]
        return [each for each in found if state in (None, each.state) and member in (None, each.member)]

    async def _dead_letters(self, topic: str | None) -> list[DeadLetter]:
        topic = topic or (await self._describe())["dead_letters"]["topic"]
        if topic is None:
            return []
        from purgatorio.testing.controls import Controls

        try:
            records = await Controls(self._backend).records(topic, None, "read_uncommitted")
        except ValueError:  # it does not exist yet, or a partition has no leader now
            return []
        letters = (_dead_letter(each) for each in records)
        return [each for each in letters if each is not None and each.group == self.name]


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


def _dead_letter(record: Record) -> DeadLetter | None:
    """Return a record of a dead-letter topic with its headers decoded; None if it is no dead letter."""
    from purgatorio.protocol.dead_letter import DeadLetterHeaders

    told = DeadLetterHeaders.decode(record.headers)
    if told is None:
        return None
    topic, partition, offset, group, deliveries, reason = told
    return DeadLetter(topic, partition, offset, group, deliveries, reason, record.key, record.value, record)
