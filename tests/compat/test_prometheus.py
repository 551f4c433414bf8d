"""Prometheus finds every broker, keeps those that die, and its alerts fire."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compat import hosts
from tests.compat.conftest import running_cluster
from tests.compat.hosts import until
from tests.compat.processes import leader_of, running
from tests.compat.prometheus import ALERTS, ROOT, settings_of, watching

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(180),
    pytest.mark.skipif(
        not (shutil.which("prometheus") and shutil.which("promtool")),
        reason="there is no Prometheus on this machine (Debian: apt-get install prometheus)",
    ),
]


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ("check rules", ALERTS),
        ("check config", ROOT / "deploy" / "prometheus" / "prometheus.yml"),
        ("test rules", Path(__file__).with_name("alerts.yml")),
    ],
)
def test_promtool_takes_the_alerts_and_they_fire_when_they_should(words: str, path: Path) -> None:
    done = subprocess.run(["promtool", *words.split(), str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.smoke
def test_the_death_of_a_process_is_an_alert_and_its_return_ends_it(tmp_path: Path) -> None:
    with running() as cluster:
        settings = settings_of("processes.md", {"http://localhost:9644": cluster.admin_url})
        with watching(tmp_path, settings) as prometheus:
            until(lambda: prometheus.values("up") == {"1": 1, "2": 1, "3": 1})
            leader = leader_of(cluster, "orders")
            until(lambda: not prometheus.firing())
            os.kill(cluster.pids.pop(leader), signal.SIGKILL)
            others = [each for each in (1, 2, 3) if each != leader]
            wanted = {
                f"PurgatorioBrokerDown {leader}",
                "PurgatorioFencedBrokers",
                "PurgatorioFewerBrokers",
                "PurgatorioUnderReplicatedPartitions",
            }
            until(lambda: prometheus.firing() == wanted)
            until(lambda: prometheus.values("up") == {str(leader): 0, **{str(each): 1 for each in others}})
            name = "kafka_controller_kafkacontroller_fencedbrokercount"
            until(lambda: prometheus.values(name, "broker") == {str(each): 1 for each in others})
            assert "is running" in cluster.command(f"broker start {leader}")
            until(lambda: not prometheus.firing())


def test_the_supervisor_reports_that_no_broker_lives(tmp_path: Path) -> None:
    with running() as cluster:
        address = cluster.admin_url.removeprefix("http://")
        settings = {"scrape_configs": [{"job_name": "purgatorio", "static_configs": [{"targets": [address]}]}]}
        with watching(tmp_path, settings) as prometheus:
            until(lambda: prometheus.values("up") == {"": 1})
            for pid in cluster.pids.values():
                os.kill(pid, signal.SIGKILL)
            until(lambda: prometheus.firing() == {"PurgatorioFencedBrokers", "PurgatorioFewerBrokers"})
            prefix, by = "kafka_controller_kafkacontroller", "process"
            assert prometheus.values(f"{prefix}_activebrokercount", by) == {"supervisor": 0}
            assert prometheus.values(f"{prefix}_fencedbrokercount", by) == {"supervisor": 3}
            cluster.pids.clear()


def test_in_one_process_the_living_brokers_report_the_dead_one(tmp_path: Path) -> None:
    with running_cluster() as cluster:
        settings = settings_of("processes.md", {"http://localhost:9644": cluster.admin_url})
        with watching(tmp_path, settings) as prometheus:
            until(lambda: prometheus.values("up") == {"": 1})
            command = [sys.executable, "-m", "purgatorio", "broker", "kill", "2", "--admin", cluster.admin_url]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            until(lambda: {"PurgatorioFencedBrokers", "PurgatorioFewerBrokers"} <= prometheus.firing())
            until(lambda: prometheus.values("up") == {"": 1})


@pytest.mark.skipif(shutil.which("etcd") is None, reason="there is no etcd on this machine")
def test_the_death_of_a_host_is_an_alert(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("0123456789abcdef0123456789abcdef\n")
    (tmp_path / "token").write_text("a token that only reads")
    flags = ["--set", f"cluster.secret.file={tmp_path / 'secret'}", "--set", f"admin.token={hosts.TOKEN}"]
    with hosts.running(tmp_path, lambda _: [*flags, "--set", "admin.read.token=a token that only reads"]) as cluster:
        found = {f"http://10.0.0.1{each}:9644": cluster.page(each) for each in (1, 2)}
        settings = settings_of("hosts.md", {**found, "/etc/prometheus/token": str(tmp_path / "token")})
        with watching(tmp_path, settings) as prometheus:
            until(lambda: prometheus.values("up") == {"1": 1, "2": 1, "3": 1})
            until(lambda: not prometheus.firing())
            cluster.brokers[1].kill()
            wanted = {"PurgatorioBrokerDown 1", "PurgatorioFencedBrokers", "PurgatorioFewerBrokers"}
            until(lambda: wanted <= prometheus.firing())
            until(lambda: prometheus.values("up") == {"1": 0, "2": 1, "3": 1})
