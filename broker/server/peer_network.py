"""The connections of a broker to the others, which a test can make stand still: a network that is partitioned."""

from __future__ import annotations

from collections.abc import Collection

from purgatorio.broker.server.peer import PeerConnection


class PeerNetwork:
    """Holds the connections to the brokers that cannot be reached now; open ones, and those that are opened meanwhile.

    A connection to such a broker still opens, as the kernel accepts it; its first request stays without an answer.
    """

    def __init__(self) -> None:
        self._connections: dict[PeerConnection, int] = {}
        self._cut: frozenset[int] = frozenset()

    @property
    def connections(self) -> Collection[PeerConnection]:
        """All that were open when the last one was opened, and that one."""
        return self._connections.keys()

    def connected(self, broker_id: int, connection: PeerConnection) -> None:
        """Note a connection that was opened to a broker."""
        self._connections = {each: to for each, to in self._connections.items() if not each.closed}
        self._connections[connection] = broker_id
        if broker_id in self._cut:
            connection.hold()

    def cut(self, broker_ids: Collection[int]) -> None:
        """Hold the connections to these brokers, and release those to all others."""
        self._cut = frozenset(broker_ids)
        for connection, broker_id in self._connections.items():
            if broker_id in self._cut:
                connection.hold()
            else:
                connection.release()
