"""Controls of a test's cluster over the operations of `purgatorio.admin.operations`; `Kafka` uses them from any thread.

A `Backend` does the operations: in the cluster's own loop, or over HTTP where each broker is a process.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

from purgatorio.testing.backend import Backend
from purgatorio.testing.records import record_of
from purgatorio.testing.values import Advanced, Ended, Group, IsolationLevel, Parked, Record
from purgatorio.testing.waiting import first

if TYPE_CHECKING:
    from purgatorio.admin.operations.brokers import ChangeFollower, KillBroker, StartBroker, StopBroker
    from purgatorio.admin.operations.declare import Answer

R = TypeVar("R")
P = ParamSpec("P")

ROOM: Final = "purgatorio.admin.operations"
STATES: Final = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Assigning", "Reconciling", "Dead")
"""The states of groups, as Kafka names them; Assigning and Reconciling are those of the consumer protocol (KIP-848)."""


def loads(
    *operations: str,
) -> Callable[[Callable[Concatenate[Controls, P], R]], Callable[Concatenate[Controls, P], R]]:
    """Import these operations, and what they import, in the caller's thread when they are needed first.

    The coroutine, which imports them too, runs in the brokers' event loop.
    """

    def decorated(method: Callable[Concatenate[Controls, P], R]) -> Callable[Concatenate[Controls, P], R]:
        @functools.wraps(method)
        def called(self: Controls, /, *args: P.args, **kwargs: P.kwargs) -> R:
            names = (each.split(".") for each in operations)
            self.backend.load([getattr(import_module(f"{ROOM}.{file}"), name) for file, name in names])
            return method(self, *args, **kwargs)

        return called

    return decorated


class Controls:
    """Controls of a running cluster; what `Kafka` promises of each holds here. Coroutines run in its event loop."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @loads("topics.CreateTopic", "topics.ShowTopic")
    async def topic(self, name: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> None:
        """Create a topic; return when each partition has a leader that all running brokers know."""
        from purgatorio.admin.operations.topics import CreateTopic

        await self.backend.ask(CreateTopic(name, partitions, None if replicas == -1 else replicas, dict(configs)))
        await first(lambda: self._topic(name), lambda topic: topic["led"])

    @loads("topics.ShowTopic", "topics.FindLeader")
    async def until_in_sync(self, topic: str) -> None:
        """Wait until all replicas of a topic are in sync; a ValueError if there is no such topic."""
        await first(lambda: self._topic(topic), lambda found: found["in_sync"])

    async def _topic(self, name: str) -> Answer:
        from purgatorio.admin.operations.topics import FindLeader, ShowTopic

        found = await self.backend.ask(ShowTopic(name))
        if not found["partition_count"]:
            await self.backend.ask(FindLeader(name))  # which says that there is none, and which there are
        return found

    @loads("records.ReadRecords", "topics.ShowTopic")
    async def records(self, topic: str, partition: int | None, isolation_level: IsolationLevel) -> list[Record]:
        """Return the committed records of a topic, by partition and offset."""
        from purgatorio.admin.operations.records import ReadRecords

        found = await self.backend.read(ReadRecords(topic, partition, isolation_level=isolation_level))
        return [record_of(topic, index, each) for index, records in found for each in records]

    @loads("clock.AdvanceClock")
    async def advance(self, seconds: float, *, sessions: bool) -> Advanced:
        """Move the clock; return what ended by it."""
        from purgatorio.admin.operations.clock import MAX_ENDED, AdvanceClock

        timeline = self.backend.timeline
        known = timeline.total
        ended = await self.backend.read(AdvanceClock(seconds, sessions, MAX_ENDED))
        changes = tuple(f"{each.partition}: {each.what}" for each in timeline.since(known))
        return Advanced(seconds, tuple(Ended(**each._asdict()) for each in ended), changes)

    # --- what waits ---

    @loads("purgatories.ListParked")
    async def parked(
        self, api: str | None = None, topic: str | None = None, client: str | None = None, group: str | None = None
    ) -> list[Parked]:
        """Return what waits in the brokers' purgatories, oldest first in each; heartbeats only if asked for."""
        from purgatorio.admin.operations.purgatories import ListParked

        found = await self.backend.read(ListParked(api, topic, client))
        if group is not None:
            described = await self._described(group)
            members = set() if described is None else {each["client"] for each in described["members"]}
            found = [each for each in found if each.group == group or each.client in members]
        return [Parked(*each[:9]) for each in found]

    @loads("purgatories.ListParked")
    async def until_parked(
        self, api: str | None = None, topic: str | None = None, client: str | None = None, group: str | None = None
    ) -> list[Parked]:
        """Wait until something of that description waits; return it."""
        return await first(lambda: self.parked(api, topic, client, group))

    @loads("brokers.ListClients")
    async def clients_gone(self, except_for: Collection[str], patience_seconds: float) -> list[str]:
        """Return the client ids that are still connected after a while; at once when there are no others than these."""
        loop = asyncio.get_running_loop()
        give_up, allowed = loop.time() + patience_seconds, set(except_for)
        left = await first(self.clients, lambda names: allowed.issuperset(names) or loop.time() > give_up)
        return [name for name in left if name not in allowed]

    @loads("brokers.ListClients")
    async def clients(self) -> list[str]:
        """Return the client ids that are connected; a connection without a client id yet is named by its address."""
        from purgatorio.admin.operations.brokers import MAX_CLIENTS, ListClients

        return list((await self.backend.ask(ListClients(MAX_CLIENTS)))["clients"])

    # --- groups ---

    @loads("groups.DescribeGroup")
    async def group(self, group_id: str) -> Group | None:
        """Return a group; None if it does not exist, or has no coordinator."""
        row = await self._described(group_id)
        if row is None:
            return None
        members = tuple(each["member_id"] for each in row["members"])
        return Group(group_id, row["state"], row["coordinator"], row["epoch"], members, row["waits_for"])

    async def _described(self, group_id: str) -> Answer | None:
        from purgatorio.admin.operations.groups import MAX_MEMBERS, DescribeGroup

        try:
            return await self.backend.ask(DescribeGroup(group_id, members=MAX_MEMBERS, offsets=0))
        except ValueError:
            return None

    @loads("groups.DescribeGroup")
    async def until_group(self, group_id: str, state: str | None, count: int | None) -> Group:
        """Wait until a group has that state and that many members; return it.

        Raises:
            ValueError: no group ever has such a state.
        """
        wanted = None if state is None else _state_named(state)

        def is_so(group: Group | None) -> bool:
            return group is not None and wanted in (None, group.state) and count in (None, len(group.members))

        found = await first(lambda: self.group(group_id), is_so)
        assert found is not None
        return found

    # --- brokers ---

    @loads("brokers.ListBrokers")
    async def running(self) -> list[int]:
        """Return the ids of the running brokers."""
        from purgatorio.admin.operations.brokers import ListBrokers

        rows = (await self.backend.ask(ListBrokers()))["brokers"]
        return [row["id"] for row in rows if row["state"] == "running"]

    async def change_broker(self, operation: ChangeFollower | KillBroker | StartBroker | StopBroker) -> None:
        """Do an operation on a broker; a BrokerStateError if there is none of that id, or the cluster refuses it."""
        from purgatorio.admin.operations.brokers import ListBrokers
        from purgatorio.broker.cluster.cluster import BrokerStateError
        from purgatorio.broker.cluster.errors import no_broker

        try:
            await self.backend.ask(operation)
        except ValueError as error:
            known = [row["id"] for row in (await self.backend.ask(ListBrokers()))["brokers"]]
            why = error if operation.id in known else no_broker(operation.id, known)
            raise BrokerStateError(str(why)) from None


def _state_named(state: str) -> str:
    """Return the state's name as Kafka writes it.

    Raises:
        ValueError: there is none of that name.
    """
    by_name = {each.lower(): each for each in STATES}
    wanted = by_name.get(state.lower().replace("_", "").replace(" ", ""))
    if wanted is None:
        raise ValueError(f"no group has the state {state!r}, only {', '.join(STATES)}")
    return wanted
