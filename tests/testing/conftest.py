"""Runs of pytest within tests, as the tests of plugins do it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

# Imported here, once: what a run within a test imports first is forgotten with it.
import purgatorio.admin.operations.table
import purgatorio.testing.controls
import purgatorio.testing.in_loop
import purgatorio.testing.kafka
import purgatorio.testing.report  # noqa: F401

Run = Callable[..., pytest.RunResult]

CLIENT = '''
import socket
import struct

def connect(kafka, name):
    """A client that has told its id, and is connected."""
    host, port = kafka.bootstrap_servers[0].split(":")
    client = socket.create_connection((host, int(port)))
    request = struct.pack(">hhih", 18, 0, 1, len(name)) + name.encode()  # ApiVersions
    client.sendall(struct.pack(">i", len(request)) + request)
    assert client.recv(4)
    return client
'''


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs pytest on a test file within this process, with this plugin only; further arguments go to pytest."""
    pytester.makepyfile(client=CLIENT)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(source: str, *arguments: str, ini: str = "") -> pytest.RunResult:
        pytester.makepyfile(test_it=source)
        pytester.makeini(f"[pytest]\n{ini}")
        return pytester.runpytest_inprocess(
            "-p", "pytest_purgatorio", "-p", "no:cacheprovider", "-W", "default", *arguments
        )

    return run
