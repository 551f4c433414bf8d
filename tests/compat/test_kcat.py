"""kcat, with its default settings."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

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


FORMAT = r"%t %p %o [%k] %K [%s] %S %h %%\x41\n"
INPUT = b"a:1\n\n:no key\nplain\nempty:\na:b:c\n"


def ours(cluster: RunningCluster, *argv: str, given: bytes = b"") -> bytes:
    command = [sys.executable, "-m", "purgatorio", *argv, "--bootstrap", cluster.bootstrap]
    return subprocess.run(command, input=given, capture_output=True, timeout=30, check=True).stdout


@pytest.mark.parametrize("writes", ["kcat", "purgatorio"])
def test_records_produce_and_consume_read_lines_and_formats_as_kcat_does(
    cluster: RunningCluster, topic: str, writes: str
) -> None:
    """The topic is made first: `produce` makes none."""
    ours(cluster, "topics", "create", topic, "--partitions", "1")
    if writes == "kcat":
        kcat(cluster, "-P", "-t", topic, "-K:", "-H", "h=1", "-H", "g=2", "-p", "0", given=INPUT.decode())
    else:
        ours(cluster, "records", "produce", topic, "-K", ":", "-H", "h=1", "-H", "g=2", "-p", "0", given=INPUT)
    theirs = kcat(cluster, "-C", "-t", topic, "-e", "-q", "-f", FORMAT)
    assert theirs.count("\n") == 5
    assert ours(cluster, "records", "consume", topic, "-f", FORMAT).decode() == theirs
    binary = kcat(cluster, "-C", "-t", topic, "-e", "-q", "-f", "%R%s").encode()
    assert ours(cluster, "records", "consume", topic, "-f", "%R%s") == binary
    assert ours(cluster, "records", "consume", topic).decode() == kcat(cluster, "-C", "-t", topic, "-e", "-q")
    last = kcat(cluster, "-C", "-t", topic, "-e", "-q", "-o", "-2")
    assert ours(cluster, "records", "consume", topic, "--from", "-2").decode() == last
