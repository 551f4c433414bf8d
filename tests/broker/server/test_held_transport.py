"""A transport that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from purgatorio.broker.server.held_transport import HeldTransport, held, released


class FakeTransport(asyncio.Transport):
    """Notes what is done to it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("here", 1)})
        self.sent: list[bytes] = []
        self.reading = True
        self.closing = False
        self.limits: tuple[int | None, int | None] | None = None

    def is_reading(self) -> bool:
        return self.reading

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.sent += list_of_data

    def get_write_buffer_size(self) -> int:
        return 5

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limits = (high, low)

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    abort = close


@pytest.fixture
def transport() -> FakeTransport:
    return FakeTransport()


def test_nothing_is_read_or_sent_until_the_release(transport: FakeTransport) -> None:
    standing = held(transport)
    assert held(standing) is standing
    standing.write(b"a")
    standing.writelines([b"b", b"c"])
    assert (transport.reading, transport.sent, standing.get_write_buffer_size()) == (False, [], 8)
    assert released(standing) is transport
    assert released(transport) is transport
    assert (transport.reading, transport.sent) == (True, [b"a", b"b", b"c"])


def test_what_the_owner_wants_meanwhile_holds_after_the_release(transport: FakeTransport) -> None:
    standing = HeldTransport(transport)
    standing.pause_reading()
    standing.release()
    assert not transport.reading
    standing = HeldTransport(transport)
    standing.resume_reading()
    standing.set_write_buffer_limits(2, 1)
    assert standing.get_extra_info("peername") == ("here", 1)
    standing.release()
    assert (transport.reading, transport.limits) == (True, (2, 1))


def test_it_closes_when_it_is_released_and_aborts_at_once(transport: FakeTransport) -> None:
    standing = HeldTransport(transport)
    standing.write(b"last")
    standing.close()
    assert (standing.is_closing(), transport.closing) == (True, False)
    standing.release()
    assert (transport.closing, transport.sent) == (True, [b"last"])
    aborted = FakeTransport()
    standing = HeldTransport(aborted)
    standing.write(b"lost")
    standing.abort()
    assert aborted.closing
    standing.release()
    assert aborted.sent == []
