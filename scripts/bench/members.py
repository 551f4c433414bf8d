"""Members of classic groups over plain sockets, many in one process: they join and beat, and read nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Self

from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.client.client import KafkaClient
from purgatorio.client.group import ClassicProtocol, GroupMembership, heartbeat
from purgatorio.client.link import Address, StreamLink
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.api_versions import ApiVersionsRequest

SESSION_TIMEOUT_MS = 60_000
REBALANCE_TIMEOUT_MS = 60_000
REJOIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
COORDINATOR = 0


def _same_for_all(members: Sequence[str], generation: int) -> dict[str, list[tuple[str, int]]]:
    return {member_id: [("topic", 0)] for member_id in members}


PROTOCOL = ClassicProtocol(("topic",), _same_for_all, SESSION_TIMEOUT_MS, REBALANCE_TIMEOUT_MS, "range")


class Board:
    """How many members of a group have been given their part of each generation.

    Attributes:
        stable: set once all members have their part of one generation.
        generation: the number of that generation: as many rebalances it took.
    """

    def __init__(self, members: int) -> None:
        self._members = members
        self._synchronised: Counter[int] = Counter()
        self.stable = asyncio.Event()
        self.generation = -1

    def synchronised(self, generation: int) -> None:
        """Count a member; when all have come, the group is stable."""
        self._synchronised[generation] += 1
        if self._synchronised[generation] == self._members:
            self.generation = generation
            self.stable.set()


class Member:
    """A member, and its connection to the coordinator."""

    def __init__(self, group_id: str, board: Board, address: Address) -> None:
        self._me = GroupMembership(group_id)
        self._board = board
        clock = SystemClock()
        self._client = KafkaClient(partial(StreamLink.open, clock, "bench"), lambda: (), clock=clock)
        self._client.addresses[COORDINATOR] = address
        self._ask = partial(self._client.ask, COORDINATOR)

    async def connect(self) -> Self:
        """Open its connection, and ask for the versions: a client that asks nothing has to make room for others."""
        link = await self._client.link(COORDINATOR)
        await link.request(ApiKey.API_VERSIONS, 0, ApiVersionsRequest(), timeout_ms=REBALANCE_TIMEOUT_MS)
        return self

    def close(self) -> None:
        """Close its connection; the coordinator keeps the member until its session is over."""
        self._client.close()

    async def join(self) -> None:
        """Join, and join again, until it is given its part of a generation."""
        while (code := (await PROTOCOL.join(self._ask, self._me))[0]) in REJOIN:
            pass
        assert not code, code.name
        self._board.synchronised(self._me.generation)

    async def beat(self, interval_seconds: float, first_seconds: float) -> None:
        """Beat until it is cancelled, for the first time after a while of its own; join again when told to."""
        await asyncio.sleep(first_seconds)
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            code = await heartbeat(self._ask, self._me)
            if code in REJOIN:
                await self.join()
            else:
                assert not code, code.name
            await asyncio.sleep(max(0.0, began + interval_seconds - loop.time()))

    async def live(self, interval_seconds: float) -> None:
        """Join, and beat until it is cancelled."""
        await self.join()
        await self.beat(interval_seconds, interval_seconds)


async def connected(stack: AsyncExitStack, address: Address, group_id: str, board: Board, count: int) -> list[Member]:
    """Return this many members of a group, connected one after another; the stack closes them."""
    members = []
    for _ in range(count):
        members.append(await Member(group_id, board, address).connect())
        stack.callback(members[-1].close)
    return members
