"""The process that brokers' processes are forked from.

The command forks it from the supervisor's process, before that has an event loop; for a supervisor in a process of
its user's, a test, it is ``python -m purgatorio.admin.cli.processes.nursery FD``. It has imported all that a broker
needs, so that a broker starts in the time of a fork, and shares the memory of the imports with the others. It runs no
event loop and no thread, which a fork would tear. One message is one byte with sockets, for each process to start, on
the connection that it inherits from the supervisor: the process's own connection, and what it listens on. It answers
with lines: JSON arrays of ``started`` and the process's id, or ``ended``, the id, and the exit status. It ends when the
supervisor ends.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from purgatorio.admin.cli.processes import MAX_SOCKETS, START, broker_process


def load() -> None:
    """Import all that a broker needs, and keep the collector of garbage from it.

    A pass over what processes share would write to it, and so copy it.
    """
    broker_process.load()
    gc.collect()
    gc.freeze()


def run(supervisor: socket.socket) -> int:
    """Fork processes until the supervisor ends; returns the exit code."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler no byte comes
    while True:
        ready, _, _ = select.select([supervisor.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            for pid, status in _ended():
                _tell(supervisor, ["ended", pid, status])
        if supervisor.fileno() in ready:
            message, fds, _, _ = socket.recv_fds(supervisor, 1, MAX_SOCKETS)
            if message != START or not fds:
                return 0
            pid = _forked(fds, supervisor, (woken, wake))
            for each in fds:
                os.close(each)
            _tell(supervisor, ["started", pid])


def _tell(supervisor: socket.socket, message: list[Any]) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has ended, as the next read finds
        supervisor.sendall(json.dumps(message).encode() + b"\n")


def _ended() -> list[tuple[int, int]]:
    """Return the processes that have ended since the last call, with their exit statuses, negative for a signal."""
    found = []
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            found.append((ended[0], os.waitstatus_to_exitcode(ended[1])))
    return found


def _forked(fds: Sequence[int], supervisor: socket.socket, pipe: tuple[int, int]) -> int:
    """Return the id of a new process, in which this function does not return."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        supervisor.close()
        for each in pipe:
            os.close(each)
        os.setsid()
        connection, *listening = (socket.socket(fileno=each) for each in fds)
        code = broker_process.run(connection, listening)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    load()
    sys.exit(run(socket.socket(fileno=int(sys.argv[1]))))
