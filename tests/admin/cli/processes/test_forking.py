"""The nursery: processes are forked there, and their ends are told."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import AsyncIterator

import pytest

from purgatorio.admin.cli.processes.broker_process import EXIT_ALONE
from purgatorio.admin.cli.processes.forking import Forked, Nursery, NurseryEnded

pytestmark = pytest.mark.process


@pytest.fixture
async def nursery() -> AsyncIterator[Nursery]:
    nursery = Nursery()
    yield nursery
    await nursery.close()


async def forked(nursery: Nursery) -> tuple[Forked, socket.socket]:
    """Return a process of a broker, which waits for its first message, and our end of its connection."""
    ours, theirs = socket.socketpair()
    try:
        return await nursery.fork(theirs), ours
    except NurseryEnded:
        ours.close()
        raise
    finally:
        theirs.close()


async def test_processes_are_started_and_their_ends_told(nursery: Nursery) -> None:
    first, ours = await forked(nursery)
    second, other = await forked(nursery)
    assert first.pid != second.pid
    assert (first.returncode, second.returncode) == (None, None)
    ours.close()
    assert await first.wait() == EXIT_ALONE, "it has no supervisor any more"
    second.send_signal(signal.SIGKILL)
    assert await second.wait() == second.returncode == -signal.SIGKILL
    second.send_signal(signal.SIGKILL)  # its id may be that of another process by now
    other.close()


async def test_a_process_keeps_no_end_of_another_ones_connection(nursery: Nursery) -> None:
    first, ours = await forked(nursery)
    second, other = await forked(nursery)
    ours.close()
    assert await first.wait() == EXIT_ALONE
    other.close()
    assert await second.wait() == EXIT_ALONE


async def test_without_the_nursery_processes_go_on_and_none_can_be_started(nursery: Nursery) -> None:
    first, ours = await forked(nursery)
    os.kill(nursery.pid, signal.SIGKILL)
    await nursery.lost.wait()
    first.send_signal(signal.SIGCONT)  # it is there
    assert first.returncode is None
    with pytest.raises(NurseryEnded, match="the process that starts brokers has ended"):
        await forked(nursery)
    ours.close()


async def test_a_nursery_that_has_started_nothing_ends(nursery: Nursery) -> None:
    await nursery.close()
    with pytest.raises(ProcessLookupError):
        os.kill(nursery.pid, 0)
