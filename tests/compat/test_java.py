"""Apache Kafka's own Java client, which Maven brings from Maven Central; `java/Checks.java` has the Java side."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compat.conftest import RunningCluster
from tests.compat.programs import INSTALL_TIMEOUT_SECONDS
from tests.java import SHORT, class_path, compiled, needs_java

pytestmark = needs_java
FOLDER = Path(__file__).parent / "java"
CHECK_TIMEOUT_SECONDS = 90

Check = Callable[[str, str], list[str]]


@pytest.fixture(scope="session")
def run_check(cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Check:
    """Runs a check of `Checks.java` against the cluster, with a topic's name; returns the lines that it prints."""
    path = compiled(
        FOLDER / "Checks.java", class_path(FOLDER / "pom.xml", pytestconfig.cache), tmp_path_factory.mktemp("java")
    )

    def check(name: str, topic: str) -> list[str]:
        command = ["java", *SHORT, "-cp", path, "Checks", name, cluster.bootstrap, topic]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=CHECK_TIMEOUT_SECONDS, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout.splitlines()

    return check


@pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + CHECK_TIMEOUT_SECONDS)
def test_topics_are_described_with_their_eligible_leader_replicas(run_check: Check, topic: str) -> None:
    assert run_check("describe", topic) == [f"{index} replicas=3 isr=3 elr=[] last=[]" for index in (0, 1)]


@pytest.mark.smoke
@pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + CHECK_TIMEOUT_SECONDS)
def test_records_of_an_idempotent_producer_are_read_back_in_order_with_every_codec(
    run_check: Check, topic: str
) -> None:
    assert run_check("round-trip", topic) == ["1000 in order: true"]


@pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + CHECK_TIMEOUT_SECONDS)
def test_kip_516_a_producer_goes_on_when_its_topic_is_deleted_and_created_again(run_check: Check, topic: str) -> None:
    """It names topics by id, so that it learns of the new one."""
    assert run_check("created-again", topic) == ["old: [0, 1, 2]", "new: [0, 1, 2]"]


@pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + CHECK_TIMEOUT_SECONDS)
def test_kip_467_the_producer_tells_a_record_at_fault_from_its_neighbours(run_check: Check, topic: str) -> None:
    good, bad = run_check("record-errors", topic)
    assert good.startswith("KafkaException: Failed to append record because it was part of a batch")
    assert bad == "InvalidRecordException: it has no key, and the topic is compacted"


@pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + CHECK_TIMEOUT_SECONDS)
def test_configs_offsets_and_deletions_are_as_the_admin_client_expects(run_check: Check, topic: str) -> None:
    assert run_check("admin", topic) == [
        "retention.ms=60000",
        "replica here: true",
        "end=5",
        "low watermark=3",
        "low watermark=3",
        "start=3",
    ]


@pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + CHECK_TIMEOUT_SECONDS)
def test_kip_226_configs_of_brokers_are_changed_described_with_their_synonyms_and_reset(
    run_check: Check, topic: str
) -> None:
    of_all, of_one = "DYNAMIC_DEFAULT_BROKER_CONFIG", "DYNAMIC_BROKER_CONFIG"
    assert run_check("broker-configs", topic) == [
        f"all: log.retention.ms=70000 {of_all} [{of_all}=70000]",
        f"2: log.retention.ms=80000 {of_one} [{of_one}=80000, {of_all}=70000, DEFAULT_CONFIG=604800000]",
        f"all: message.max.bytes=5000 {of_all} [{of_all}=5000]",
        f"2: message.max.bytes=5000 {of_all} [{of_all}=5000, DEFAULT_CONFIG=1048588]",
        "topic: 5000",
        "RecordTooLargeException",
        "InvalidRequestException",
        "left: 1",  # min.insync.replicas, which Kafka 4.1 lists for all brokers (KIP-966)
    ]


@pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + CHECK_TIMEOUT_SECONDS)
@pytest.mark.parametrize("check", ["group", "consumer-protocol"])
def test_consumers_of_both_group_protocols_share_a_topic_and_resume(run_check: Check, topic: str, check: str) -> None:
    assert run_check(check, topic) == ["alone: 2", "shared: true", "alone again: 2", "resumed at 5", "resumed at 5"]
