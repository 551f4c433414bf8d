"""A simulated member of a consumer group, the common part of both protocols. It records the answers that it gets.

A member reads the partitions that it owns from their committed offsets, and commits what it has read. It also does what
members do in bad times: it leaves and comes back, it is silent for longer than its session, and a commit of its arrives
after the rebalance that took the partition from it.

Members of a group that transforms commit what they have read with what they make of it (`transaction_clients`).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.client.client import FAILURES, NETWORK_ERRORS, Coordinator, Unavailable
from purgatorio.client.group import NOT_MEMBER, GroupMembership, committed_offsets, offset_commit
from purgatorio.protocol.errors import ErrorCode
from purgatorio.simulation.clients.clients import Client
from purgatorio.simulation.clients.consumers import SimulatedConsumer, Took
from purgatorio.simulation.clients.plans import SESSION_TIMEOUT_MS, GroupShared
from purgatorio.simulation.clients.transaction_clients import NotProcessed, Transformer
from purgatorio.simulation.history.history import GroupAssigned, OffsetCommitted, OffsetRead

BEAT_PAUSE_MS: Final = (150, 450)
NOT_WRITTEN: Final = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
"""The coordinator answers these to a commit before it appends. NOT_COORDINATOR may come after that, as may others."""


async def read_offsets(
    client: Client,
    coordinator: Coordinator,
    shared: GroupShared,
    partitions: Sequence[TopicPartition],
    *,
    me: GroupMembership | None = None,
) -> dict[TopicPartition, int]:
    """Ask for the committed offsets of partitions, and record them; -1: there is none. Raises FAILURES."""
    group = shared.plan.group_id
    await coordinator.find()
    asked_ms = client.clock.now_ms()
    # Behind a transaction that is not over, the group coordinator answers UNSTABLE_OFFSET_COMMIT (KIP-447).
    stable = shared.transactions is not None
    found = await committed_offsets(coordinator, group, partitions, me=me, stable=stable)
    offsets = {TopicPartition(*tp): offset for tp, offset in found.items()}
    for tp, offset in offsets.items():
        client.record(OffsetRead, group, str(tp), offset, asked_ms)
    return offsets


class OffsetObserver:
    """Reads the committed offsets of a group again and again, as monitors of consumer lag do."""

    def __init__(self, client: Client, shared: GroupShared) -> None:
        self._client = client
        self._shared = shared

    async def run(self, stopped: Callable[[], bool]) -> None:
        """Read until `stopped`, and once more after that."""
        coordinator, last = Coordinator(self._client, self._shared.plan.group_id), False
        try:
            while not last:
                last = stopped()
                try:
                    await read_offsets(self._client, coordinator, self._shared, self._shared.partitions)
                    await asyncio.sleep(self._client.rng.uniform(0.1, 0.4))
                except FAILURES:
                    last = False
                    coordinator.forget()
                    await self._client.back_off()
        finally:
            self._client.close()


class GroupMember(ABC):
    """One member; `client` has its connections for the group, and it has others to read."""

    NAMES_ITSELF: ClassVar[bool]
    """Whether its OffsetFetch requests have its member id and epoch."""

    def __init__(
        self, client: Client, shared: GroupShared, instance_id: str | None = None, transactional_id: str = ""
    ) -> None:
        self._client = client
        self._shared = shared
        self._me = GroupMembership(shared.plan.group_id, instance_id=instance_id)
        self._rng = random.Random(client.rng.random())
        self._coordinator = Coordinator(client, shared.plan.group_id)
        self._readers: dict[TopicPartition, tuple[SimulatedConsumer, asyncio.Task[None]]] = {}
        self._unread: dict[TopicPartition, None] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._late: tuple[GroupMembership, dict[TopicPartition, int]] | None = None
        self._transformer: Transformer | None = None
        if shared.transactions is not None:
            self._transformer = Transformer(client.name, shared.transactions, transactional_id, self._rng)

    @property
    def owned(self) -> list[TopicPartition]:
        """The partitions that the member takes for its own."""
        return [*self._readers, *self._unread]

    @property
    def generation(self) -> int:
        """The generation or member epoch; below 1: it is no member."""
        return self._me.generation

    @property
    def committed(self) -> int:
        """How far it has committed, over all that it owns."""
        return sum(self._committed.values())

    def has_read_to(self, end_offsets: Mapping[TopicPartition, float]) -> bool:
        """Return whether it has read all that it owns up to these offsets."""
        is_idle = self._transformer is None or self._transformer.is_idle
        return (
            is_idle
            and not self._unread
            and all(reader.position >= end_offsets.get(tp, 0) for tp, (reader, _) in self._readers.items())
        )

    async def run(self, stopped: Callable[[], bool]) -> None:
        """Be a member until `stopped`, then leave."""
        try:
            while not stopped():
                try:
                    await self._coordinator.find()
                    await self._step()
                except FAILURES:
                    await self._lost_coordinator()
            with contextlib.suppress(*FAILURES):
                await self._commit()
                await self._go()
        finally:
            self._give_up(list(self._readers))
            self._client.close()
            if self._transformer is not None:
                self._transformer.close()

    async def _lost_coordinator(self) -> None:
        self._coordinator.forget()
        await self._client.back_off()

    async def _step(self) -> None:
        """Do what is next: join, begin to read, commit, beat."""
        if self._me.generation <= 0:
            await self._join()
            return
        if self._unread:
            # If the coordinator knows this member no more, or moves on, the heartbeat tells it so.
            with contextlib.suppress(Unavailable):
                await self._begin_to_read()
        await self._send_late_commit()
        await asyncio.sleep(self._rng.uniform(*BEAT_PAUSE_MS) / 1000)
        if self._rng.random() < 0.7:
            await self._commit()
        await self._beat()
        if self._shared.is_restless():
            await self._follow_a_whim()

    async def _follow_a_whim(self) -> None:
        chance = self._rng.random()
        if chance < 0.02:
            await asyncio.sleep(1.5 * SESSION_TIMEOUT_MS / 1000)
        elif chance < 0.04:
            await self._go()
            await asyncio.sleep(self._rng.uniform(0.0, 1.0))

    # --- what the protocols have of their own ---

    @abstractmethod
    async def _join(self) -> None:
        """Become a member; returns also if that takes another attempt."""

    @abstractmethod
    async def _beat(self) -> None:
        """Send a heartbeat, and do what the answer asks for."""

    @abstractmethod
    async def _go(self) -> None:
        """Leave the group; a static member may stay and lose its member id."""

    # --- partitions ---

    def _recorded(self, generation: int) -> int:
        """Return the generation for the history.

        It is not known of a mixed group: its generations begin anew when it is empty, and a member of the other
        protocol comes.
        """
        return NOT_MEMBER if self._shared.plan.protocol == "mixed" else generation

    def _told(self, partitions: Iterable[TopicPartition]) -> None:
        names = tuple(sorted(str(tp) for tp in partitions))
        group_id, generation = self._shared.plan.group_id, self._recorded(self._me.generation)
        self._client.record(GroupAssigned, group_id, self._client.name, self._me.identity, generation, names)

    def _take_over(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            if tp not in self._readers:
                self._unread[tp] = None

    def _give_up(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop to read partitions; sometimes a commit of them is still to come."""
        partitions = list(partitions)
        positions = self._positions(partitions)
        if positions and self._transformer is None and self._rng.random() < 0.3:
            self._late = replace(self._me), positions
        for tp in partitions:
            self._unread.pop(tp, None)
            self._committed.pop(tp, None)
            self._stop_to_read(tp)

    def _stop_to_read(self, tp: TopicPartition) -> None:
        reader = self._readers.pop(tp, None)
        if reader is not None:
            reader[1].cancel()
        if self._transformer is not None:
            self._transformer.forget(tp)

    def _positions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        read = {tp: self._readers[tp][0].position for tp in partitions if tp in self._readers}
        return {tp: position for tp, position in read.items() if position >= 0}

    async def _begin_to_read(self) -> None:
        """Read what is new from its committed offset."""
        wanted = list(self._unread)
        me = self._me if self.NAMES_ITSELF else None
        offsets = await read_offsets(self._client, self._coordinator, self._shared, wanted, me=me)
        for tp in wanted:
            self._unread.pop(tp)
            took: Took = (lambda records: None) if self._transformer is None else self._transformer.took(tp)
            client = self._shared.new_client(self._client.name)
            consumer = SimulatedConsumer(client, tp, reader=self._shared.reader, start=offsets[tp], took=took)
            reading = consumer.run(lambda: False)
            # Its context is that of this task: the reader belongs to this client's node.
            task = asyncio.get_running_loop().create_task(reading, name=f"{self._client.name} reads {tp}")
            self._readers[tp] = consumer, task

    # --- commits ---

    async def _commit(self) -> None:
        if self._transformer is not None:
            await self._transform(self._transformer)
            return
        positions = self._positions(self._readers)
        new = {tp: offset for tp, offset in positions.items() if offset != self._committed.get(tp, 0)}
        if new and self._me.generation > 0:
            code = await self._send_commit(replace(self._me), new)
            if code is ErrorCode.NONE:
                self._committed |= {tp: offset for tp, offset in new.items() if tp in self._readers}

    async def _transform(self, transformer: Transformer) -> None:
        """Process what has been read; if that fails, begin to read at the committed offsets again."""
        if self._me.generation <= 0:
            return
        try:
            offsets = await transformer.process(self._positions(self._readers), self._committed, replace(self._me))
        except NotProcessed:
            for tp in list(self._readers):
                self._stop_to_read(tp)
                self._committed.pop(tp, None)
                self._unread[tp] = None
            return
        self._committed |= {tp: offset for tp, offset in offsets.items() if tp in self._readers}

    async def _send_late_commit(self) -> None:
        late, self._late = self._late, None
        if late is not None and self._shared.is_restless():
            await self._send_commit(*late)

    async def _send_commit(self, me: GroupMembership, offsets: Mapping[TopicPartition, int]) -> ErrorCode:
        """Commit offsets, and record the outcome for each partition; a late commit has a generation that is over."""
        asked_ms, outcome = self._client.clock.now_ms(), "unknown"
        try:
            response = await self._coordinator.ask(offset_commit(me, offsets))
            code = ErrorCode(response.topics[0].partitions[0].error_code)
            outcome = "acked" if code is ErrorCode.NONE else "refused" if code in NOT_WRITTEN else "unknown"
        except NETWORK_ERRORS as error:
            raise Unavailable(repr(error)) from error
        finally:
            # Also if this client is killed meanwhile: its request may still arrive.
            who = me.group, me.identity, self._recorded(me.generation)
            for tp, offset in offsets.items():
                self._client.record(OffsetCommitted, *who, str(tp), offset, asked_ms, outcome)
        return code
