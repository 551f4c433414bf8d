"""A schema registry as a process: started, waited for, ended, and started anew."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from purgatorio.registry.guard import guarded
from purgatorio.registry.kinds import RegistryKind, RegistryTarget, RegistryUnavailable
from purgatorio.unpatched import monotonic

POLL_SECONDS: Final = 0.02
ASK_TIMEOUT_SECONDS: Final = 5.0
END_TIMEOUT_SECONDS: Final = 10.0
LINES_KEPT: Final = 200
"""The last lines that a registry has printed; the report of a failure has the last of them."""


class SchemaRegistry:
    """A registry beside a cluster. Its methods block; they may be called from any thread, one at a time.

    Args:
        kind: the program.
        target: its cluster, and where it listens.
        on_end: called in a thread of the registry, with a sentence, if it ends though nothing has stopped it.

    Attributes:
        url: where clients reach its API, which is like Confluent's.
    """

    def __init__(
        self, kind: RegistryKind, target: RegistryTarget, on_end: Callable[[str], object] = lambda said: None
    ) -> None:
        self._kind = kind
        self._target = target
        self._on_end = on_end
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._is_ready = False
        self.url = f"http://{target.client_host}:{target.port}{kind.api}"

    def __str__(self) -> str:
        return self.url

    @property
    def client_prefix(self) -> str:
        """The prefix of its Kafka clients' ids."""
        return self._kind.name

    def client_config(self) -> dict[str, str]:
        """Return the settings of confluent-kafka's ``SchemaRegistryClient``."""
        return {"url": self.url}

    def start(self) -> None:
        """Start it; return when schemas can be written.

        Raises:
            RegistryUnavailable: its port is in use, or it ends or hangs; the message says why.
        """
        _check_free(self._target.host, self._target.port)
        launch = self._kind.launch(self._target)
        self._lines.clear()
        self._process = subprocess.Popen(
            guarded(launch.command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=launch.folder,
            env=_environ(launch.environ),
            start_new_session=True,  # Ctrl-C in a terminal is the owner's, which ends the registry
        )
        self._reader = threading.Thread(target=self._read, args=(self._process,), name="registry", daemon=True)
        self._reader.start()
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.stop()
            raise
        self._is_ready = True

    def stop(self) -> None:
        """End it at once, and wait until it is gone. May be called again."""
        process, self._process = self._process, None
        self._is_ready = False
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(END_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert self._reader is not None
        self._reader.join(END_TIMEOUT_SECONDS)

    def restart(self) -> None:
        """Start it anew, at the same address: the cluster has forgotten its schemas, and so does it."""
        self.stop()
        self.start()

    # --- inside ---

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as output:
            for line in output:
                self._lines.append(line.rstrip())
        if self._is_ready and self._process is process:
            self._on_end(f"the schema registry has ended{self._last_words()}")

    def _wait_until_ready(self, process: subprocess.Popen[str]) -> None:
        until = monotonic() + self._kind.patience_seconds
        while not self._answers():
            if process.poll() is not None:
                assert self._reader is not None
                self._reader.join(END_TIMEOUT_SECONDS)
                raise RegistryUnavailable(f"the schema registry did not start{self._last_words()}")
            if monotonic() > until:
                seconds = self._kind.patience_seconds
                raise RegistryUnavailable(
                    f"the schema registry was not ready after {seconds:.0f} s{self._last_words()}"
                )
            time.sleep(POLL_SECONDS)

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(
            self._target.client_host, self._target.port, timeout=ASK_TIMEOUT_SECONDS
        )
        try:
            connection.request("GET", self._kind.health)
            answer = connection.getresponse()
            body = answer.read()
            return answer.status == http.client.OK and self._kind.is_ready(body)
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            return False
        finally:
            connection.close()

    def _last_words(self) -> str:
        """Return what it printed last, to be added to a sentence."""
        printed = [line for line in self._lines if line.strip()]
        return f": {printed[-1].strip()}" if printed else ""


def free_port(host: str) -> int:
    """Return a TCP port of an address of this machine that was free just now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _check_free(host: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise RegistryUnavailable(f"the schema registry cannot listen on {host}:{port}: {error.strerror}") from None


def _environ(more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a registry: settings of another one that this process was given are not for it."""
    foreign = ("KARAPACE_", "APICURIO_", "QUARKUS_")
    own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**own, **more}
