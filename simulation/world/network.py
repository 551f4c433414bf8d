"""A network in memory that behaves as TCP does: ordered, flow-controlled, and without loss while a link is cut.

A link is one direction between two nodes, given by their names. A cut link holds its packets, resets and closes
included, as TCP buffers and retransmits; they arrive after the link has healed. Faults belong to names of nodes and
stay in effect when a node dies and starts again.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable, Iterable
from typing import Final

from purgatorio.simulation.world.loop import Node, SimulatedLoop, current_node
from purgatorio.simulation.world.transport import LinkDirection, Pipe, SimulatedTransport

FIRST_FREE_PORT: Final = 20_000
WORLD: Final = "world"

Address = tuple[str, int]
ProtocolFactory = Callable[[], asyncio.Protocol]


def name_of(node: Node | None) -> str:
    """Return a node's name on the network."""
    return WORLD if node is None else node.name


class SimulatedServer(asyncio.AbstractServer):
    """The result of `create_server`: the part of `asyncio.Server` that brokers and simulated services use.

    It serves from the start, so that `start_serving` has nothing to do.
    """

    def __init__(
        self, network: SimulatedNetwork, factory: ProtocolFactory, address: Address, node: Node | None
    ) -> None:
        self.factory = factory
        self.address = address
        self.node = node
        self._network = network
        self._open = True

    def get_loop(self) -> SimulatedLoop:
        """Return the loop."""
        return self._network.loop

    @property
    def sockets(self) -> tuple[SimulatedServer, ...]:
        """This object, which has `getsockname` as a socket does; empty when closed."""
        return (self,) if self._open else ()

    def getsockname(self) -> Address:
        """Return host and port."""
        return self.address

    def is_serving(self) -> bool:
        """Whether connections are accepted."""
        return self._open

    def close(self) -> None:
        """Stop accepting connections."""
        if self._open:
            self._open = False
            del self._network.servers[self.address]

    async def wait_closed(self) -> None:
        """Return at once, as closing takes no time."""

    async def start_serving(self) -> None:
        """Do nothing."""

    async def serve_forever(self) -> None:
        """Wait until the task is cancelled; then close."""
        try:
            await self._network.loop.create_future()
        finally:
            self.close()


class SimulatedNetwork:
    """The network of one simulated loop, whose servers and connections use it from now on."""

    def __init__(
        self, loop: SimulatedLoop, rng: random.Random, *, latency_ms: tuple[float, float] = (0.1, 1.0)
    ) -> None:
        self.loop = loop
        self.rng = rng
        self.split_writes = False
        self._latency_ms = latency_ms
        self._latency_of: dict[str, tuple[float, float]] = {}
        self._links: dict[tuple[str, str], LinkDirection] = {}
        self.servers: dict[Address, SimulatedServer] = {}
        self._homes: dict[Address, str] = {}  # each address's last node: its host outlasts its process
        self._next_port = FIRST_FREE_PORT
        loop.network = self

    # --- faults ---

    def link(self, source: str, target: str) -> LinkDirection:
        """Return the link from one node to another, by their names."""
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = LinkDirection(self._default_latency_ms(source, target))
        return link

    def place(self, name: str, latency_ms: tuple[float, float]) -> None:
        """Give all links of a node, which has none yet, this range of delays as their default."""
        self._latency_of[name] = latency_ms

    def _default_latency_ms(self, source: str, target: str) -> tuple[float, float]:
        return self._latency_of.get(source) or self._latency_of.get(target) or self._latency_ms

    def cut(self, source: str, target: str) -> None:
        """Cut the link from `source` to `target`, but not the other direction."""
        self.link(source, target).cut = True

    def is_cut(self, source: str, target: str) -> bool:
        """Whether the link from `source` to `target` is cut."""
        link = self._links.get((source, target))
        return link is not None and link.cut

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
        link.latency_ms, link.spike_probability = self._default_latency_ms(source, target), 0.0
        link.bytes_per_second, link.busy_until_seconds = None, 0.0
        link.cut = False
        for pipe in link.pipes:
            pipe.resend()

    def heal_all(self) -> None:
        """Undo every fault."""
        for source, target in list(self._links):
            self.heal(source, target)

    # --- connections ---

    def listen(self, factory: ProtocolFactory, host: str, port: int) -> SimulatedServer:
        """Listen as the current node.

        Raises:
            OSError: the address is taken, or the node is dead.
        """
        node = _living_node()
        if port == 0:
            while (host, self._next_port) in self.servers:
                self._next_port += 1
            port, self._next_port = self._next_port, self._next_port + 1
        address = (host, port)
        if address in self.servers:
            raise OSError(errno.EADDRINUSE, f"error while attempting to bind on address ('{host}', {port})")
        server = self.servers[address] = SimulatedServer(self, factory, address, node)
        self._homes[address] = name_of(node)
        if node is not None:
            node.on_kill.append(server.close)
        return server

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect as the current node.

        Raises:
            ConnectionRefusedError: no server listens there.
            OSError: the node is dead.
        """
        client = _living_node()
        answer: asyncio.Future[SimulatedTransport | None] = self.loop.create_future()
        self._open_connection(client, (host, port), answer)
        try:
            transport = await answer
        except asyncio.CancelledError:
            if not answer.cancelled() and (transport := answer.result()) is not None:
                transport.abort()  # the connection was made before the cancelled task ran again
            raise
        if transport is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed ('{host}', {port})")
        protocol = factory()
        transport.begin(protocol)
        return transport, protocol

    def _open_connection(
        self, client: Node | None, address: Address, answer: asyncio.Future[SimulatedTransport | None]
    ) -> None:
        """Open a connection; `answer` gets the client's end of it, or None if no server listens."""
        here, there = name_of(client), self._homes.get(address, WORLD)
        outward = Pipe(self.loop, self.rng, self.link(here, there))
        inward = Pipe(self.loop, self.rng, self.link(there, here))

        def arrive() -> None:
            server = self.servers.get(address)
            if server is None:
                inward.send(lambda: None if answer.done() else answer.set_result(None))
                return
            splits = self.rng if self.split_writes else None
            accepted = SimulatedTransport(self.loop, splits, server.node, outward=inward, peer=(here, 0), name=address)
            transport = SimulatedTransport(self.loop, splits, client, outward=outward, peer=address, name=(here, 0))
            transport.other, accepted.other = accepted, transport
            inward.send(lambda: established(transport))
            accepted.run(lambda: accepted.begin(server.factory()))

        def established(transport: SimulatedTransport) -> None:
            if answer.done() or (client is not None and not client.alive):
                transport.abort()  # the connecting task was cancelled, or its node is dead
            else:
                answer.set_result(transport)

        outward.send(arrive)


def _living_node() -> Node | None:
    """Return the current node.

    Raises:
        OSError: the node is dead. Its tasks, while they unwind, have no effect on other nodes.
    """
    node = current_node()
    if node is not None and not node.alive:
        raise OSError(errno.ENETDOWN, f"{node.name} was killed")
    return node
