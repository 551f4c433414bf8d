"""Members of classic groups over plain sockets, many in one process: they join and beat, and read nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any, Self

from purgatorio.protocol.api import ApiKey, decode_response, encode_request
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.api_versions import ApiVersionsRequest
from purgatorio.protocol.messages.heartbeat import HeartbeatRequest
from purgatorio.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from purgatorio.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION = 5, 3, 3
SESSION_TIMEOUT_MS = 60_000
REBALANCE_TIMEOUT_MS = 60_000
SUBSCRIPTION = b"\0\1\0\0\0\1\0\5topic\xff\xff\xff\xff\0\0\0\0"
ASSIGNMENT = b"\0\0\0\0\0\1\0\5topic\0\0\0\1\0\0\0\0\xff\xff\xff\xff"
REJOIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)


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

    def __init__(self, group_id: str, board: Board) -> None:
        self.group_id = group_id
        self._board = board
        self._member_id = ""
        self._generation = -1

    async def connect(self, address: tuple[str, int]) -> Self:
        """Open its connection, and ask for the versions: a client that asks nothing has to make room for others."""
        self._reader, self._writer = await asyncio.open_connection(*address)
        await self._ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
        return self

    async def close(self) -> None:
        """Close its connection; the coordinator keeps the member until its session is over."""
        self._writer.close()
        await self._writer.wait_closed()

    async def _ask(self, api_key: ApiKey, version: int, message: Any) -> Any:
        self._writer.write(b"".join(encode_request(api_key, version, 1, "bench", message)))
        size_bytes = int.from_bytes(await self._reader.readexactly(4))
        return decode_response(api_key, version, await self._reader.readexactly(size_bytes))[1]

    async def join(self) -> None:
        """Join, and join again, until it is given its part of a generation."""
        while True:
            joined = await self._join()
            if joined is not None and await self._synchronise(joined):
                self._board.synchronised(self._generation)
                return

    async def _join(self) -> Any:
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        )
        response = await self._ask(ApiKey.JOIN_GROUP, JOIN_VERSION, request)
        self._member_id = response.member_id
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            return None
        assert not response.error_code, ErrorCode(response.error_code).name
        self._generation = response.generation_id
        return response

    async def _synchronise(self, joined: Any) -> bool:
        assignments = [SyncGroupRequestAssignment(member_id=m.member_id, assignment=ASSIGNMENT) for m in joined.members]
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            assignments=assignments,
        )
        response = await self._ask(ApiKey.SYNC_GROUP, SYNC_VERSION, request)
        assert response.error_code in (0, *REJOIN), ErrorCode(response.error_code).name
        return not response.error_code

    async def beat(self, interval_seconds: float, first_seconds: float) -> None:
        """Beat until it is cancelled, for the first time after a while of its own; join again when told to."""
        await asyncio.sleep(first_seconds)
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            request = HeartbeatRequest(
                group_id=self.group_id, generation_id=self._generation, member_id=self._member_id
            )
            response = await self._ask(ApiKey.HEARTBEAT, HEARTBEAT_VERSION, request)
            if response.error_code in REJOIN:
                await self.join()
            else:
                assert not response.error_code, ErrorCode(response.error_code).name
            await asyncio.sleep(max(0.0, began + interval_seconds - loop.time()))

    async def live(self, interval_seconds: float) -> None:
        """Join, and beat until it is cancelled."""
        await self.join()
        await self.beat(interval_seconds, interval_seconds)


async def connected(
    stack: AsyncExitStack, address: tuple[str, int], group_id: str, board: Board, count: int
) -> list[Member]:
    """Return this many members of a group, connected one after another; the stack closes them."""
    members = []
    for _ in range(count):
        members.append(await Member(group_id, board).connect(address))
        stack.push_async_callback(members[-1].close)
    return members
