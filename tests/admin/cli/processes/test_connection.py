"""Tests of the connection between the supervisor and a broker's process."""

from __future__ import annotations

import asyncio
import socket

from purgatorio.admin.cli.processes.connection import connect
from purgatorio.broker.metadata.served import Message
from tests.error_log import ErrorLog


async def test_messages_arrive_in_order_and_each_end_notices_the_others_end() -> None:
    received: list[Message] = []
    ours, theirs = socket.socketpair()
    here, there = await connect(ours, lambda _: None), await connect(theirs, received.append)
    sent: list[Message] = [["keep", number, "x" * 100_000] for number in range(5)]
    for message in sent:
        here.send(message)
    here.close()
    await asyncio.wait_for(there.closed, 5)
    assert received == sent
    await asyncio.wait_for(here.closed, 5)
    here.send(["keep", 6])  # to nobody
    there.close()


async def test_what_cannot_be_understood_closes_the_connection(error_log: ErrorLog) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        here = await connect(ours, lambda _: None)
        theirs.sendall(b"\0\0\0\1{")
        await asyncio.wait_for(here.closed, 5)
    error_log.expect("a message of another process cannot be understood")


async def test_an_end_that_does_not_read_is_told_of() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        here = await connect(ours, lambda _: None)
        told: list[bool] = []
        reads_again = asyncio.Event()

        def when_slow(is_slow: bool) -> None:
            told.append(is_slow)
            if not is_slow:
                reads_again.set()

        here.when_slow = when_slow
        here.send(["image", "x" * 1_000_000])
        assert told == [True]
        read = asyncio.get_running_loop().run_in_executor(None, drain, theirs, 1_000_000)
        await asyncio.wait_for(read, 5)
        await asyncio.wait_for(reads_again.wait(), 5)
        assert told == [True, False]
        here.close()
        await here.closed


def drain(sock: socket.socket, count: int) -> None:
    """Read so many bytes."""
    while count > 0:
        count -= len(sock.recv(1 << 20))
