"""kcat, with its default settings."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.compat.conftest import RunningCluster

KCAT = shutil.which("kcat")
pytestmark = pytest.mark.skipif(
    KCAT is None and not os.environ.get("CI"), reason="kcat is not installed (Debian: apt-get install kcat)"
)


def kcat(cluster: RunningCluster, *arguments: str, given: str = "") -> str:
    assert KCAT is not None, "CI installs kcat"
    command = [KCAT, "-b", cluster.bootstrap, *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=30, check=True).stdout


@pytest.mark.parametrize(
    "compression", ["none", "gzip", "snappy", "lz4", pytest.param("zstd", marks=pytest.mark.smoke)]
)
def test_records_that_are_produced_are_consumed(cluster: RunningCluster, topic: str, compression: str) -> None:
    lines = "".join(f"line {number}\n" for number in range(100))
    kcat(cluster, "-P", "-t", topic, "-z", compression, given=lines)
    assert kcat(cluster, "-C", "-t", topic, "-o", "beginning", "-e", "-q") == lines


def test_listing_shows_brokers_and_topics(cluster: RunningCluster, topic: str) -> None:
    kcat(cluster, "-P", "-t", topic, given="one\n")
    listing = kcat(cluster, "-L")
    assert "3 brokers:" in listing
    assert f'topic "{topic}" with 1 partitions' in listing


def test_seeking_by_timestamp(cluster: RunningCluster, topic: str) -> None:
    kcat(cluster, "-P", "-t", topic, given="one\ntwo\n")
    assert kcat(cluster, "-Q", "-t", f"{topic}:0:0").strip().endswith("offset 0")


def test_a_balanced_consumer_reads_the_topic_and_the_next_one_resumes_after_it(
    cluster: RunningCluster, topic: str
) -> None:
    group = ["-G", f"group-of-{topic}", "-X", "auto.offset.reset=earliest", "-e", "-q", topic]
    kcat(cluster, "-P", "-t", topic, given="one\ntwo\n")
    assert kcat(cluster, *group) == "one\ntwo\n"
    kcat(cluster, "-P", "-t", topic, given="three\n")
    assert kcat(cluster, *group) == "three\n"
