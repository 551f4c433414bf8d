"""A network in memory that behaves as TCP does: ordered, flow-controlled, and patient while a link is cut.

A link is a pair of node names and has a direction. What is sent over a cut link is held, as TCP holds and repeats it,
and arrives after the link has healed; resets and closes are held too. Faults are set by name and outlast the nodes.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from broker.simulation.loop import Node, SimulatedLoop, current_node
from broker.simulation.transport import SimulatedTransport

FIRST_FREE_PORT: Final = 20_000
WORLD: Final = "world"

Address = tuple[str, int]
ProtocolFactory = Callable[[], asyncio.Protocol]


def name_of(node: Node | None) -> str:
    """A node's name on the network."""
    return WORLD if node is None else node.name


@dataclass(slots=True, eq=False)
class Link:
    """One direction between two nodes.

    Attributes:
        latency_ms: the range that each packet's delay is drawn from.
        bytes_per_second: None: no limit.
        cut: hold everything.
    """

    latency_ms: tuple[float, float]
    bytes_per_second: float | None = None
    cut: bool = False
    pipes: dict[Pipe, None] = field(default_factory=dict)


class Pipe:
    """Carries the packets of one direction of one connection, in order."""

    def __init__(self, network: Network, link: Link) -> None:
        self._network = network
        self._link = link
        self._packets: deque[Callable[[], None]] = deque()
        self._free_at = 0.0

    def send(self, deliver: Callable[[], None], size_bytes: int = 0) -> None:
        """Have `deliver` called at the other end."""
        self._packets.append(deliver)
        if self._link.cut:
            self._link.pipes[self] = None
        else:
            self._schedule(size_bytes)

    def resend(self) -> None:
        """The link has healed: what was held goes on its way."""
        for _ in range(len(self._packets)):
            self._schedule(0)

    def _schedule(self, size_bytes: int) -> None:
        network, link = self._network, self._link
        delay = network.rng.uniform(*link.latency_ms) / 1000
        if link.bytes_per_second is not None:
            delay += size_bytes / link.bytes_per_second
        self._free_at = max(self._free_at, network.loop.time() + delay)
        network.in_world(self._free_at, self._arrive)

    def _arrive(self) -> None:
        """The oldest packet arrives; which one was scheduled for this moment does not matter, since all keep order."""
        if self._link.cut:
            self._link.pipes[self] = None
        elif self._packets:
            self._packets.popleft()()


class SimulatedServer:
    """What `create_server` returns: as much of `asyncio.Server` as is used."""

    def __init__(self, network: Network, factory: ProtocolFactory, address: Address, node: Node | None) -> None:
        self.factory = factory
        self.address = address
        self.node = node
        self._network = network
        self._open = True

    @property
    def sockets(self) -> tuple[SimulatedServer, ...]:
        """Itself, which knows its name as a socket does."""
        return (self,) if self._open else ()

    def getsockname(self) -> Address:
        """Host and port."""
        return self.address

    def is_serving(self) -> bool:
        """Whether connections are accepted."""
        return self._open

    def close(self) -> None:
        """Accept no more."""
        if self._open:
            self._open = False
            self._network.unlisten(self)

    async def wait_closed(self) -> None:
        """Closing takes no time."""


class Network:
    """The network of one simulated loop.

    Args:
        loop: whose `create_server` and `create_connection` it serves from now on.
        rng: draws delays and splits.
        latency_ms: the range of delays of every link that is not set otherwise.
    """

    def __init__(
        self, loop: SimulatedLoop, rng: random.Random, *, latency_ms: tuple[float, float] = (0.1, 1.0)
    ) -> None:
        self.loop = loop
        self.rng = rng
        self.split_writes = False
        self._latency_ms = latency_ms
        self._links: dict[tuple[str, str], Link] = {}
        self._servers: dict[Address, SimulatedServer] = {}
        self._next_port = FIRST_FREE_PORT
        loop.network = self

    # --- faults ---

    def link(self, source: str, target: str) -> Link:
        """The link from one node to another, by their names."""
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link(self._latency_ms)
        return link

    def cut(self, source: str, target: str) -> None:
        """Hold what goes from `source` to `target`; the other direction goes on."""
        self.link(source, target).cut = True

    def partition(self, group: Iterable[str], others: Iterable[str]) -> None:
        """Cut both directions between two groups."""
        others = list(others)
        for one in group:
            for other in others:
                self.cut(one, other)
                self.cut(other, one)

    def heal(self, source: str, target: str) -> None:
        """Undo every fault of a link."""
        link = self.link(source, target)
        link.latency_ms, link.bytes_per_second = self._latency_ms, None
        if link.cut:
            link.cut = False
            pipes, link.pipes = link.pipes, {}
            for pipe in pipes:
                pipe.resend()

    def heal_all(self) -> None:
        """Undo every fault."""
        for source, target in list(self._links):
            self.heal(source, target)

    # --- connections ---

    def in_world(self, when: float, callback: Callable[[], None]) -> None:
        """Call back at a loop time, as the world: the network goes on when nodes are paused."""
        self.loop.call_at(when, callback, context=self.loop.world)

    def listen(self, factory: ProtocolFactory, host: str, port: int) -> SimulatedServer:
        """Listen as the current node.

        Raises:
            OSError: the address is taken.
        """
        while port == 0 or (port == self._next_port and (host, port) in self._servers):
            port, self._next_port = self._next_port, self._next_port + 1
        if (host, port) in self._servers:
            raise OSError(errno.EADDRINUSE, f"error while attempting to bind on address ('{host}', {port})")
        node = current_node()
        server = self._servers[host, port] = SimulatedServer(self, factory, (host, port), node)
        if node is not None:
            node.on_kill.append(server.close)
        return server

    def unlisten(self, server: SimulatedServer) -> None:
        """A server accepts no more."""
        del self._servers[server.address]

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect as the current node.

        Raises:
            ConnectionRefusedError: nobody listens there.
        """
        client = current_node()
        answer: asyncio.Future[SimulatedTransport | None] = self.loop.create_future()
        target = self._servers.get((host, port))
        there = name_of(target.node) if target is not None else WORLD
        outward = Pipe(self, self.link(name_of(client), there))
        inward = Pipe(self, self.link(there, name_of(client)))

        def arrive() -> None:
            server = self._servers.get((host, port))
            if server is None:
                inward.send(lambda: _set(answer, None))
                return
            accepted = SimulatedTransport(
                self, server.node, outward=inward, peer=(name_of(client), 0), name=(host, port)
            )
            inward.send(lambda: established(accepted))
            accepted.run(lambda: accepted.begin(server.factory()))

        def established(accepted: SimulatedTransport) -> None:
            if answer.cancelled() or (client is not None and not client.alive):
                outward.send(accepted.reset)
                return
            transport = SimulatedTransport(self, client, outward=outward, peer=(host, port), name=(name_of(client), 0))
            transport.other, accepted.other = accepted, transport
            accepted.flush()
            _set(answer, transport)

        outward.send(arrive)
        transport = await answer
        if transport is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed ('{host}', {port})")
        protocol = factory()
        transport.begin(protocol)
        return transport, protocol


def _set(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)
