"""One broker's process as its supervisor has it, when it stands still."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from purgatorio.admin.cli.processes.supervised import Supervised
from purgatorio.admin.web.forwarding import ForwardedRequest, Unreachable
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.metadata.image import Endpoint


class Process:
    """A process that ends by SIGTERM if it does not stand still, as one of the system's does."""

    def __init__(self) -> None:
        self.pid = 4711
        self.returncode: int | None = None
        self.signals: list[signal.Signals] = []
        self.ended = asyncio.Event()

    def send_signal(self, number: signal.Signals) -> None:
        self.signals.append(number)
        pending = signal.SIGTERM in self.signals
        stands_still = self.signals.count(signal.SIGSTOP) > self.signals.count(signal.SIGCONT)
        if number is signal.SIGKILL or (pending and not stands_still):
            self.returncode = -number
            self.ended.set()


class Connection:
    """Keeps what is sent to the process."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, message: Any) -> None:
        self.sent.append(message)


@pytest.fixture
async def supervised() -> Supervised:
    """A process whose broker answers clients."""
    unused: Any = None
    each: Any = Supervised(0, ClusterConfig(), unused, b"secret", unused, lambda supervised, status: None)
    each.process, each._connection = Process(), Connection()
    each.endpoints = [Endpoint("PLAINTEXT", "127.0.0.1", 9092)]
    each._end = asyncio.ensure_future(each.process.ended.wait())
    running: Supervised = each
    return running


async def test_a_process_that_stands_still_is_stopped_in_order(supervised: Any) -> None:
    """SIGTERM waits until SIGCONT comes; without it the process would be ended by force after its time."""
    supervised.pause()
    await supervised.stop()
    assert supervised.process.signals == [signal.SIGSTOP, signal.SIGTERM, signal.SIGCONT]


async def test_a_process_that_stands_still_is_not_asked(supervised: Any) -> None:
    """It would be waited for in vain, a second for each request of the page."""
    supervised.pause()
    with pytest.raises(Unreachable, match=r"its process 4711 stands still \(SIGSTOP\)"):
        await asyncio.wait_for(supervised.ask(ForwardedRequest("GET", "/api/v1/state", {})), 0.5)
    assert supervised._connection.sent == []
    supervised.resume()
    asking = asyncio.ensure_future(supervised.ask(ForwardedRequest("GET", "/api/v1/state", {})))
    await asyncio.sleep(0)
    assert [message[0] for message in supervised._connection.sent] == ["ask"]
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await supervised.stop()
