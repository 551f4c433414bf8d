"""The base of causes: each has a sentence, and the actors for which operations wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from purgatorio.broker.log.topic_partition import TopicPartition

DescribeFate = Callable[[Any], str]
"""Returns the expected end of an `OpenTransaction`, in a few words; "" if nothing is known."""
FindAbsent = Callable[[TopicPartition], Sequence[int]]
"""Returns the replicas of a partition that are not in sync."""


class Actor(NamedTuple):
    """A broker, transaction, group or the like for which operations wait.

    Attributes:
        kind: of the cause.
        name: its name or id, unique within the kind.
        broker_ids: the brokers that it is about.
        is_ordinary: see `Why`.
    """

    kind: str
    name: str
    broker_ids: tuple[int, ...] = ()
    is_ordinary: bool = False


class WaitPart(NamedTuple):
    """One of the actors that an operation waits for, with the cause.

    Attributes:
        bytes: the bytes that a fetch could read, and those that it wants, if it waits for more of them.
    """

    actor: Actor
    cause: Any
    tps: Sequence[TopicPartition] = ()
    behind: int = 0
    bytes: tuple[int, int] | None = None

    def for_more_bytes(self, available: int, wanted: int) -> WaitPart:
        """Return it for a fetch that has something to read and wants more, which no new record alone ends."""
        if not 0 < available < wanted:
            return self
        actor = self.actor._replace(name=f"{self.actor.name}-fetch.min.bytes", is_ordinary=False)
        return self._replace(actor=actor, bytes=(available, wanted))


class Why:
    """The base of causes: a class is all that there is to know of a kind of cause, but for the ways out (`answers`).

    Attributes:
        is_ordinary: it is a long poll, and there is no record yet.
        is_holding: the sentences of the fetches that it holds back name it.
    """

    __slots__ = ()
    is_ordinary = False
    is_holding = False

    def sentence(self, fate: DescribeFate) -> str:
        """Return its sentence, which is that of `str` if it names no open transaction."""
        return str(self)

    def parts(self, absent: FindAbsent) -> Iterator[WaitPart]:
        """Yield the actors for which an operation waits; those of the same name are one."""
        named = (getattr(self, name, None) for name in ("transactional_id", "group_id"))
        yield self.part(next((each for each in named if each is not None), ""))

    def part(
        self,
        name: str | int,
        broker_ids: Sequence[int] = (),
        tps: Sequence[TopicPartition] | None = None,
        behind: int = 0,
    ) -> WaitPart:
        """Return a part about an actor of this kind.

        Args:
            tps: the partitions that it is about; None: that of the cause, if it has one.
        """
        tp = getattr(self, "tp", None)
        own = (tp,) if isinstance(tp, TopicPartition) else ()
        actor = Actor(type(self).__name__, str(name), tuple(broker_ids), self.is_ordinary)
        return WaitPart(actor, self, own if tps is None else tps, behind)
