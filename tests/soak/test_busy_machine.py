"""On a machine that has no time for it a cluster is slow, and nothing else: no lease lost, no election, no error."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from tests.soak.busy_clients import BusyClients
from tests.soak.busy_machine import LoggedCluster, busy_processes, share_of_a_core

BUSY_SECONDS = float(os.environ.get("BUSY_SECONDS", "180"))
PARTITIONS = 500
BUSY_PROCESSES = 8
LOST = "lease lost|fenced|ISR shrank"

pytestmark = [pytest.mark.clients, pytest.mark.heavy, pytest.mark.timeout(BUSY_SECONDS + 900)]


@pytest.mark.parametrize("share", [None, 0.1], ids=["beside eight busy processes", "with a tenth of a core"])
def test_a_cluster_on_a_busy_machine_loses_no_lease(
    tmp_path: Path, share: float | None, record_property: pytest.RecordProperty
) -> None:
    cluster = LoggedCluster(tmp_path / "log")
    clients = BusyClients(cluster.bootstrap, partitions=PARTITIONS)
    try:
        clients.create_topics(replicas=3)
        began_seconds = cluster.cpu_seconds()
        throttled = busy_processes(BUSY_PROCESSES) if share is None else share_of_a_core(cluster.process.pid, share)
        with throttled, contextlib.ExitStack() as ending:
            clients.start()
            ending.callback(clients.stop)
            clients.work(BUSY_SECONDS)
        used_seconds = cluster.cpu_seconds() - began_seconds
        elections = cluster.elections()
    finally:
        code = cluster.stop()
    did = ", ".join(f"{kind} {count}" for kind, count in clients.done.items())
    record_property("note", f"busy machine, {BUSY_SECONDS:.0f} s: {did}; {used_seconds:.0f} s of CPU")
    assert cluster.lines(LOST) == []
    assert elections == 0
    assert clients.errors == []
    assert code == 0
    assert min(clients.done[kind] for kind in ("records", "classic", "consumer", "transactions")) > 0
