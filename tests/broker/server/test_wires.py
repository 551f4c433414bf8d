"""The connections of a broker to the others, which a test can make stand still."""

from __future__ import annotations

from typing import Any, cast

from purgatorio.broker.server.peer import PeerConnection
from purgatorio.broker.server.wires import Wires


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
    wires, second, third, late = Wires(), peer(), peer(), peer()
    wires.connected(2, second)
    wires.connected(3, third)
    wires.cut([2])
    wires.connected(2, late)
    assert [second.held, third.held, late.held] == [True, False, True]
    wires.cut([3])
    assert [second.held, third.held, late.held] == [False, True, False]
    wires.cut([])
    assert not third.held


def test_closed_connections_are_forgotten() -> None:
    wires = Wires()
    for _ in range(10):
        connection = peer()
        wires.connected(2, connection)
        connection.closed = True
    assert len(wires._connections) == 1
