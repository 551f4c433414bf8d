"""The supervisor's end of the nursery: it starts processes there, and hears of their ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable
from typing import Final

from purgatorio.admin.cli.processes import START
from purgatorio.unpatched import plain_socket, plain_subprocess

PROGRAM: Final = "purgatorio.admin.cli.processes.nursery"
GONE: Final = -int(signal.SIGKILL)
"""The exit status of processes that ended after the nursery, which would have reported it."""


class Forked:
    """A process of a broker.

    Attributes:
        pid: its id.
        returncode: its exit status after its end, negative for the signal that ended it; None before.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = asyncio.Event()

    def end(self, status: int) -> None:
        """Record the exit status, and end `wait`."""
        self.returncode = status
        self._ended.set()

    async def wait(self) -> int:
        """Wait for its end; returns the exit status."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, if it has not ended."""
        if self.returncode is None:
            os.kill(self.pid, number)


class NurseryEnded(Exception):
    """The nursery has ended, so that no process can be started."""


class Nursery:
    """Starts processes; it is a process itself, in a session of its own: Ctrl-C reaches the supervisor alone.

    Args:
        fork: whether it is forked from this process, which has no event loop and no other thread yet. Then they share
            their memory.

    Attributes:
        pid: the id of its process.
        lost: set when it has ended before `close`. The processes that it has started go on; their ends are not
            reported.
    """

    def __init__(self, *, fork: bool = False) -> None:
        self._socket, theirs = plain_socket().socketpair()
        self._program: subprocess.Popen[bytes] | None = None
        with theirs:
            if fork:
                self.pid = self._forked_off(theirs)
            else:
                command = [sys.executable, "-m", PROGRAM, str(theirs.fileno())]
                self._program = plain_subprocess().Popen(command, pass_fds=[theirs.fileno()], start_new_session=True)
                self.pid = self._program.pid
        self._writer: asyncio.StreamWriter | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._started: asyncio.Queue[int] = asyncio.Queue()
        self._forked: dict[int, Forked] = {}
        self._starting = asyncio.Lock()
        self.lost = asyncio.Event()

    def _forked_off(self, theirs: socket.socket) -> int:
        from purgatorio.admin.cli.processes import nursery

        nursery.load()
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            self._socket.close()
            os.setsid()
            code = nursery.run(theirs)
        finally:
            os._exit(code)

    async def fork(self, theirs: socket.socket, listening: Iterable[socket.socket] = ()) -> Forked:
        """Start a process with one end of a pair of sockets, and with others to listen on.

        Raises:
            NurseryEnded: the nursery does not run any more.
        """
        async with self._starting:
            if self._hearing is None:
                reader, self._writer = await asyncio.open_unix_connection(sock=self._socket)
                self._hearing = asyncio.get_running_loop().create_task(self._hear(reader), name="nursery")
            if self.lost.is_set():
                raise NurseryEnded("the process that starts brokers has ended")
            try:
                plain_socket().send_fds(self._socket, [START], [each.fileno() for each in (theirs, *listening)])
            except OSError as error:
                raise NurseryEnded(f"the process that starts brokers has ended ({error.strerror})") from None
            waiting = asyncio.ensure_future(self._started.get())
            await asyncio.wait([waiting, self._hearing], return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                waiting.cancel()
                raise NurseryEnded("the process that starts brokers has ended")
            return self._forked[waiting.result()]

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            match json.loads(line):
                case ["started", pid]:
                    self._forked[pid] = Forked(pid)
                    self._started.put_nowait(pid)
                case ["ended", pid, status]:
                    self._forked.pop(pid).end(status)
        self._forked.clear()
        self.lost.set()

    def end(self) -> None:
        """Wait for the end of the process, after `close`, or without a process that it has started."""
        if self._writer is None:
            self._socket.close()
        if self._program is not None:
            self._program.wait()
            return
        with contextlib.suppress(ChildProcessError):  # a second call
            os.waitpid(self.pid, 0)

    async def close(self) -> None:
        """End the nursery, whose processes have ended."""
        if self._writer is not None:
            self._writer.close()
        await asyncio.to_thread(self.end)
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.gather(self._hearing, return_exceptions=True)
