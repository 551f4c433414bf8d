"""How long new connections wait for their first answer beside a client that keeps a broker busy.

Both event loops are measured: uvloop accepts one connection a turn by itself, asyncio as many as wait.
"""

from __future__ import annotations

import multiprocessing
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from loads import pipelined
from processes import brokers
from purgatorio.client.wire import TIMEOUT_SECONDS, Wire, frame
from purgatorio.protocol.messages.api_versions import ApiVersionsRequest
from rows import Row, at_most, percentile
from wire import create_topic, produce_frame

CROWD = 200
BUSY_PROCESSES = 8
PIPELINED_DEPTH = 256
PIPELINED_CONNECTIONS = 4
ROUNDS = 5
SETTLE_SECONDS = 1.0
LOOPS = ("asyncio", "uvloop")


def _spin() -> None:
    while True:
        pass


def _pipeline(address: tuple[str, int], connections: int) -> None:
    request = produce_frame("busy", 100, acks=1)
    pipelined(address, request, depth=PIPELINED_DEPTH, connections=connections, count=1_000_000_000)


@contextmanager
def _beside(address: tuple[str, int], busy_processes: int) -> Iterator[None]:
    """Run a client that pipelines, and processes that need the machine's cores."""
    fork = multiprocessing.get_context("fork")
    others = [fork.Process(target=_spin) for _ in range(busy_processes)]
    others.append(fork.Process(target=_pipeline, args=(address, PIPELINED_CONNECTIONS)))
    for each in others:
        each.start()
    try:
        time.sleep(SETTLE_SECONDS)
        yield
    finally:
        for each in others:
            each.kill()
            each.join()


def first_answers(address: tuple[str, int], count: int) -> list[float]:
    """Connect so many clients at once; return the seconds from each one's connect to its first answer."""
    request = frame(ApiVersionsRequest(), 0)
    poll = select.epoll()
    waits: list[float] = []
    with ExitStack() as stack:
        stack.callback(poll.close)
        clients = {}
        for _ in range(count):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            clients[client.fileno()] = (client, time.perf_counter())
            client.connect_ex(address)
            poll.register(client, select.EPOLLOUT)
        deadline = time.perf_counter() + TIMEOUT_SECONDS
        while len(waits) < count:
            for fileno, event in poll.poll(1):
                client, started = clients[fileno]
                if event & select.EPOLLIN:
                    assert client.recv(65536), "the broker closed the connection"
                    waits.append(time.perf_counter() - started)
                    poll.unregister(fileno)
                else:
                    client.send(request)
                    poll.modify(fileno, select.EPOLLIN)
            assert time.perf_counter() < deadline, f"{len(waits)} of {count} were answered"
    return waits


def _crowd(loop: str, rounds: int, count: int, busy_processes: int) -> list[float]:
    with brokers(1, loop=loop) as running:
        create_topic(running.addresses[0], "busy", 1)
        Wire(running.addresses[0]).close()
        with _beside(running.addresses[0], busy_processes):
            return [wait for _ in range(rounds) for wait in first_answers(running.addresses[0], count)]


def rows(quick: bool = False) -> list[Row]:
    """Run all measurements of this file."""
    rounds, count, busy = (1, 20, 0) if quick else (ROUNDS, CROWD, BUSY_PROCESSES)
    found = []
    medians: dict[str, float] = {}
    worst: dict[str, float] = {}
    beside = f"{count} new connections beside a pipelined client and {busy} busy processes"
    for loop in LOOPS:
        waits = _crowd(loop, rounds, count, busy)
        medians[loop], worst[loop] = percentile(waits, 0.5), max(waits)
        measured = f"p50 {medians[loop] * 1000:.0f} ms, p99 {percentile(waits, 0.99) * 1000:.0f} ms"
        found.append(Row(f"{beside}: first answer, {loop}", measured))
    found.append(at_most(f"{beside}: p50, uvloop against asyncio", medians["uvloop"] / medians["asyncio"], 3, "×"))
    found.append(at_most(f"{beside}: worst, uvloop", worst["uvloop"] * 1000, 1000, " ms"))
    return found
