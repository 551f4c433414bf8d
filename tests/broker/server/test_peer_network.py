"""The connections of a broker to the others, which a test can make stand still."""

from __future__ import annotations

from typing import Any, cast

from purgatorio.broker.server.peer import PeerConnection
from purgatorio.broker.server.peers import PeerNetwork


class FakePeer:
    """A connection that notes whether it is held."""

    def __init__(self) -> None:
        self.held = self.closed = False

    def hold(self) -> None:
        self.held = True

    def release(self) -> None:
        self.held = False


def peer() -> Any:
    return cast("PeerConnection", FakePeer())


def test_open_connections_and_new_ones_to_a_broker_that_is_cut_off_stand_still() -> None:
    peer_network, second, third, late = PeerNetwork(), peer(), peer(), peer()
    peer_network.connected(2, second)
    peer_network.connected(3, third)
    peer_network.cut([2])
    peer_network.connected(2, late)
    assert [second.held, third.held, late.held] == [True, False, True]
    peer_network.cut([3])
    assert [second.held, third.held, late.held] == [False, True, False]
    peer_network.cut([])
    assert not third.held


def test_closed_connections_are_forgotten() -> None:
    peer_network = PeerNetwork()
    for _ in range(10):
        connection = peer()
        peer_network.connected(2, connection)
        connection.closed = True
    assert len(peer_network._connections) == 1
