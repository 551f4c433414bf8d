"""The sample load, against a broker in this process."""

from __future__ import annotations

import asyncio
import re
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.config import ClusterConfig

pytestmark = pytest.mark.process

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "sample_load.py"
PATIENCE_SECONDS = 40


async def run(*argv: str) -> tuple[int | None, str, str]:
    """Exit status, standard output and standard error."""
    process = await asyncio.create_subprocess_exec(sys.executable, SCRIPT, *argv, stdout=PIPE, stderr=PIPE)
    async with asyncio.timeout(PATIENCE_SECONDS):
        said, errors = await process.communicate()
    return process.returncode, said.decode(), errors.decode()


async def test_many_clients_write_and_read_and_a_slow_follower_makes_them_wait() -> None:
    async with Cluster(ClusterConfig(port=0, admin_port=0)) as cluster:
        where = ("--bootstrap", cluster.bootstrap, "--admin", cluster.admin_url)
        status, said, errors = await run(*where, "--seconds", "4", "--seed", "2")
        waited = {each.client for broker in cluster.brokers for each in broker.finished.last(1_000)}
        held = [broker.gate.held or broker.gate.delay_ms for broker in cluster.brokers]
    assert (status, errors) == (0, "")
    found = re.search(r"^([\d,]+) sent, ([\d,]+) acknowledged, (\d+) given up; read by", said, re.MULTILINE)
    assert found is not None, said
    sent, acknowledged, given_up = (int(number.replace(",", "")) for number in found.groups())
    assert sent == acknowledged + given_up > 100
    assert re.search(r"broker \d fetches", said), "no follower was slow"
    assert {"shop-checkout", "payments-api", "mobile-app", "fraud-check", "reporting"} <= waited
    assert not any(held), "a follower is still slow"


async def test_a_missing_cluster_is_reported_in_one_line() -> None:
    status, said, errors = await run("--admin", "http://127.0.0.1:1")
    assert (status, said) == (1, "")
    assert errors.startswith("sample_load: no server listens at http://127.0.0.1:1")
    assert errors.count("\n") == 1


async def test_the_environment_can_name_the_clusters_admin_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PURGATORIO_ADMIN", "http://127.0.0.1:1")
    status, _, errors = await run()
    assert status == 1
    assert errors.startswith("sample_load: no server listens at http://127.0.0.1:1")
    status, _, errors = await run("--admin", "http://127.0.0.1:2")
    assert errors.startswith("sample_load: no server listens at http://127.0.0.1:2")
