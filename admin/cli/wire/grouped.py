"""A member of a consumer group, by the classic protocol: it reads what it owns, and commits what is written."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from purgatorio.admin.cli.wire.asking import Client, first_of, patiently, refused
from purgatorio.admin.cli.wire.groups import targets
from purgatorio.admin.cli.wire.reading import METADATA_MS, Reader, leaders_of
from purgatorio.client.client import FAILURES, Coordinator, Partition, Refused, check
from purgatorio.client.group import (
    ClassicProtocol,
    GroupMembership,
    committed_offsets,
    heartbeat,
    leave,
    offset_commit,
)
from purgatorio.protocol.errors import ErrorCode
from purgatorio.purgatory.clock import time_limit

SESSION_MS: Final = 10_000
REBALANCE_MS: Final = 30_000
HEARTBEAT_MS: Final = 3_000
LEAVE_MS: Final = 5_000
ASSIGNOR: Final = "range"
"""The one that all clients have, so that others may be in the group."""
JOIN_AGAIN: Final = frozenset(
    (
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    )
)


class _Rebalance(Exception):
    """The group shares its partitions anew."""


async def read_as_member(reader: Reader, client: Client, other: Client, args: argparse.Namespace) -> None:
    """Read what the group gives to this member, until all of that has ended.

    Args:
        client: that of the reader.
        other: one with links of its own, for the group.

    Raises:
        CommandRefused: the group does not take the member.
    """
    member = Member(reader, client, other, args)
    try:
        while await member.take_part():
            pass
    finally:
        await member.leave()


class Member:
    """This member."""

    def __init__(self, reader: Reader, client: Client, other: Client, args: argparse.Namespace) -> None:
        self._reader = reader
        self._client = client
        self._other = other
        self._args = args
        self._me = GroupMembership(args.group)
        self._coordinator = Coordinator(other, args.group, timeout_ms=REBALANCE_MS + SESSION_MS)
        self._committed: dict[Partition, int] = {}
        self._protocol = ClassicProtocol(
            (args.topic,),
            lambda members, generation: {},
            SESSION_MS,
            REBALANCE_MS,
            ASSIGNOR,
            partial(assign_range, client),
        )

    async def take_part(self) -> bool:
        """Join, and read until the next rebalance; return whether there is one."""
        known = await patiently(self._other, partial(leaders_of, self._other, [self._args.topic]))
        owned = await patiently(self._other, self._join, round(self._args.timeout * 1000))
        await self._find_positions(owned)
        try:
            async with asyncio.TaskGroup() as tasks:
                beside = [tasks.create_task(self._beat())]
                if self._args.follow:
                    beside.append(tasks.create_task(self._notice_new(len(known))))
                if owned or not self._args.follow:
                    await self._reader.run()
                    for each in beside:
                        each.cancel()
        except BaseExceptionGroup as error:
            if not isinstance(first_of(error), _Rebalance):
                raise
            with contextlib.suppress(*FAILURES):  # what was written since, unless it is too late
                await self._commit()
            return True
        return False

    async def _join(self) -> list[Partition]:
        code, owned = await self._protocol.join(self._coordinator.ask, self._me)
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._me.member_id = ""
        if code in JOIN_AGAIN:
            self._coordinator.forget()
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)  # it passes
        if code:
            why = (
                "its members speak another protocol" if code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL else "it refuses"
            )
            raise refused(f"{code.name}: cannot join group {self._args.group}: {why}")
        return owned

    async def _find_positions(self, owned: Sequence[Partition]) -> None:
        """Go on where the group was, or begin where the user says."""
        self._reader.positions.clear()
        self._committed.clear()
        if not owned:
            return
        found = await committed_offsets(self._coordinator, self._args.group, owned)
        new = [tp for tp in owned if found.get(tp, -1) < 0]
        if new:
            leaders = await leaders_of(self._client, {topic for topic, _ in new})
            committed = self._args.isolation == "read_committed"
            found |= await targets(self._client, {tp: leaders[tp] for tp in new}, self._args.start, committed=committed)
        self._reader.positions |= found
        self._committed |= {tp: offset for tp, offset in found.items() if tp not in new}

    async def _beat(self) -> None:
        """Stay in the group, and commit what is written; raises _Rebalance."""
        while True:
            await self._other.clock.sleep(HEARTBEAT_MS)
            try:
                code = await heartbeat(self._coordinator.ask, self._me)
                await self._commit()
            except Refused as error:
                code = error.code
            except FAILURES:
                continue  # another coordinator, perhaps: the reader gives up if no broker answers
            if code is ErrorCode.UNKNOWN_MEMBER_ID:
                self._me.member_id = ""
            if code in JOIN_AGAIN:
                self._coordinator.forget()
                raise _Rebalance
            if code:
                raise refused(f"{code.name}: group {self._args.group} does not keep this member")

    async def _notice_new(self, count: int) -> None:
        """Raise _Rebalance when the topic has more partitions: the group's leader has to share them, too."""
        while True:
            await self._other.clock.sleep(METADATA_MS)
            with contextlib.suppress(*FAILURES):  # the reader gives up if no broker answers
                if len(await leaders_of(self._other, [self._args.topic])) > count:
                    raise _Rebalance

    async def _commit(self) -> None:
        """Commit the positions that have moved."""
        moved = {tp: at for tp, at in self._reader.positions.items() if self._committed.get(tp) != at}
        if not moved:
            return
        answer = await self._coordinator.ask(offset_commit(self._me, moved))
        for each in (each for topic in answer.topics for each in topic.partitions):
            check(each.error_code)
        self._committed |= moved

    async def leave(self) -> None:
        """Commit, and leave the group, as well as that is possible."""
        if not self._me.member_id:
            return
        self._other.close()  # a request may have been cancelled
        try:
            async with time_limit(self._other.clock, LEAVE_MS):
                await self._commit()
                await leave(self._coordinator.ask, self._me)
        except (*FAILURES, TimeoutError):
            return


async def assign_range(client: Client, members: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[Partition]]:
    """Share each topic's partitions in runs among the members that subscribe to it, as Kafka's range assignor does."""
    shares: dict[str, list[Partition]] = {member: [] for member in sorted(members)}
    for topic in sorted({each for topics in members.values() for each in topics}):
        found = (await client.metadata(topic)).topics[0].partitions
        subscribed = [member for member in shares if topic in members[member]]
        each, more = divmod(len(found), len(subscribed))
        start = 0
        for nth, member in enumerate(subscribed):
            count = each + (nth < more)
            shares[member] += [(topic, index) for index in range(start, start + count)]
            start += count
    return shares
