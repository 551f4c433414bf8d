"""Tests of the stores that obstore opens: locations that can be none, and errors in words."""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.node.broker_maker import BrokerMaker, TierUnusable
from purgatorio.broker.tier import obstore_store
from purgatorio.broker.tier.location import probe
from purgatorio.broker.tier.obstore_store import check_location, open_store
from purgatorio.broker.tier.store import Exists, Refused, Unavailable
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tests.broker.cluster.test_cluster import ORDERS, PATIENCE_MS, client
from tests.broker.replica.harness import topic
from tests.broker.replica.tiered import TIERED, Tiered
from tests.broker.tier.conftest import CREDENTIALS, Answering
from tests.broker.tier.stores import record_batch

pytest.importorskip("obstore")


def test_a_tier_without_obstore_is_refused_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(obstore_store, "find_spec", lambda name: None)
    with pytest.raises(Refused, match=r"a tier needs obstore: .* install .*\[tier\]"):
        open_store(str(tmp_path))


def test_a_folder_that_cannot_be_is_refused_in_words(tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Refused, match=r"the tier's folder .*file/tier cannot be written to: Not a directory"):
        open_store(str(tmp_path / "file" / "tier"))


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says which threads there are")
def test_a_location_is_checked_without_a_thread(tmp_path: Path) -> None:
    """The process may fork afterwards."""
    code = (
        "import os, sys; from purgatorio.broker.tier.obstore_store import check_location\n"
        "for location in sys.argv[1:]: check_location(location)\n"
        "print(len(os.listdir('/proc/self/task')))"
    )
    run = [sys.executable, "-c", code, str(tmp_path), "s3://shop/a", "gs://shop/a", "memory:"]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "1\n"


def test_the_memory_of_a_process_is_no_tier_for_several() -> None:
    check_location("memory:")
    with pytest.raises(Refused, match="the memory of one process is no tier for the brokers of several: take a folder"):
        check_location("memory:", of_one_process=False)


def test_a_container_without_an_account_is_refused_with_the_variables() -> None:
    with pytest.raises(Refused, match=r"there are no credentials for az://shop: set AZURE_STORAGE_ACCOUNT_NAME and "):
        open_store("az://shop")


def answer(code: str, message: str) -> str:
    return f'<?xml version="1.0"?>\n<Error><Code>{code}</Code>\n<Message>{message}</Message></Error>'


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (
            404,
            answer("NoSuchBucket", "None."),
            Refused,
            r"there is no bucket shop: create it, or name another one \(404 ",
        ),
        (404, "", Refused, r"there is no s3://shop/tier: create it"),
        (
            403,
            answer("AccessDenied", "No."),
            Refused,
            r"may not be used with these .* \(403 Forbidden: AccessDenied: No\.\)",
        ),
        (
            403,
            "",
            Refused,
            "s3://shop/tier may not be used with these credentials; they need to get, put, list and delete",
        ),
        (400, answer("ExpiredToken", "Over."), Refused, "the credentials for s3://shop/tier ran out: renew them"),
        (301, answer("PermanentRedirect", "."), Refused, "is in another region: set AWS_REGION"),
        (412, answer("PreconditionFailed", "."), Exists, "already exists|412"),
        (503, answer("SlowDown", "Less."), Unavailable, r"^503 Service Unavailable: SlowDown: Less\.$"),
        (500, "", Unavailable, "^500 Internal Server Error$"),
    ],
)
async def test_what_a_bucket_answers_is_said_with_what_to_do(
    answering: Answering, status: int, body: str, kind: type[Exception], words: str
) -> None:
    answering.answers = [(status, body)]
    with pytest.raises(kind, match=words):
        await open_store("s3://shop/tier").put("a", [b"1"], create=True)
    assert answering.asked == 1, "it was tried again by obstore"


async def test_a_missing_bucket_is_no_missing_object(answering: Answering) -> None:
    answering.answers = [(404, answer("NoSuchBucket", "None."))] * 3
    store = open_store("s3://shop/tier")
    for calling in (store.get("a", 0, 1), store.delete("a"), store.list("a/")):
        with pytest.raises(Refused, match="there is no bucket shop"):
            await calling


async def test_a_server_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Unavailable, match=f"^http://127.0.0.1:{port} cannot be reached: Connection refused$"):
        await open_store("s3://shop/tier").put("a", [b"1"], create=True)


@pytest.mark.slow
async def test_a_bucket_on_a_server_is_probed_and_a_missing_one_refused(s3: str) -> None:
    store = open_store(s3)
    await probe(store, SystemClock(), "probe")
    assert not await store.list("")
    with pytest.raises(Refused, match="there is no bucket nothing: create it"):
        await probe(open_store("s3://nothing"), SystemClock(), "probe")


@pytest.mark.slow
async def test_a_consumer_reads_from_a_bucket_what_is_not_in_memory_any_more(s3: str) -> None:
    async with Cluster(ClusterConfig(port=0, admin_port=0, broker={"tier_location": s3})) as cluster:
        connection = await client(cluster.brokers[0])
        given = {"remote.storage.enable": "true", "segment.bytes": "2000", "local.retention.bytes": "1"}
        configs = [CreatableTopicConfig(name=name, value=value) for name, value in given.items()]
        topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=3, configs=configs)
        await connection.request(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic]), timeout_ms=PATIENCE_MS)
        connection.close()
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
            for number in range(30):
                await producer.send_and_wait("orders", b"%d" % number * 100)
        leader = next(each for each in cluster.brokers if (replica := each.replica(ORDERS)) and replica.is_leader)
        assert leader.tiering is not None
        await leader.tiering.round()
        assert not leader.tiering.trouble
        for _ in leader.replicas.retention_steps():
            pass
        assert leader.replica(ORDERS).log.local_start_offset > 20
        async with AIOKafkaConsumer(
            "orders", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            found = []
            while len(found) < 30:
                found.append((await consumer.getone()).value)
        assert found == [b"%d" % number * 100 for number in range(30)]


async def test_a_cluster_does_not_start_if_the_store_does_not_do_its_part(answering: Answering) -> None:
    answering.answers = [(404, answer("NoSuchBucket", "None."))]
    cluster = Cluster(ClusterConfig(port=0, admin_port=0, broker={"tier_location": "s3://shop"}))
    with pytest.raises(TierUnusable, match=r"tier\.location: there is no bucket shop: create it, or name another one"):
        await cluster.start()


@pytest.mark.parametrize("others", [{}, {2: None}])
async def test_a_broker_that_joins_others_does_without_a_store_that_does_not_answer(
    answering: Answering, others: dict[int, Any]
) -> None:
    answering.answers = [(503, "")]
    image = SimpleNamespace(cluster_id="c", live_brokers=others)
    member: Any = SimpleNamespace(secret=b"", store=SimpleNamespace(image=image))
    maker = BrokerMaker(ClusterConfig(broker={"tier_location": "s3://shop"}), SystemClock(), None, member)
    if others:
        await maker.check_tier()
    else:
        with pytest.raises(TierUnusable, match=r"^tier\.location: 503 Service Unavailable$"):
            await maker.check_tier()


ENDS = """
import asyncio, sys
from purgatorio.broker.tier.obstore_store import open_store
async def main():
    store = open_store(sys.argv[1])
    await store.put("a", [b"1"], create=False)
    await store.get("a", 0, 1)
asyncio.run(main())
"""


@pytest.mark.process
@pytest.mark.parametrize("number", range(4))
def test_a_process_may_end_right_after_a_call(tmp_path: Path, number: int) -> None:
    """Threads of obstore, which still had Python's objects, aborted one such process in three."""
    ended = subprocess.run([sys.executable, "-c", ENDS, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


async def test_obstore_lets_go_of_what_it_has_written(tmp_path: Path) -> None:
    """The exit waits for that, since a call that is cancelled may write on."""
    store = open_store(str(tmp_path))
    writing = asyncio.ensure_future(store.put("a", [bytes(1_000_000)], create=True))
    await asyncio.sleep(0)
    assert obstore_store._written
    writing.cancel()
    async with asyncio.timeout(20):
        while obstore_store._written:  # noqa: ASYNC110 - a thread of obstore says nothing
            await asyncio.sleep(0.001)


@pytest.fixture
def full_disk() -> Iterator[Callable[[], None]]:
    """Files of this process may have 8 KB, until the function is called: a write beyond fails as on a full disk."""
    resource = pytest.importorskip("resource", reason="this system has no limits of files")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, hard))

    def make_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    yield make_room
    make_room()


def files(folder: Path) -> list[str]:
    return [each.name for each in folder.rglob("*") if each.is_file()]


async def test_a_disk_that_fills_in_a_copy_loses_nothing_and_keeps_no_part_of_it(
    tmp_path: Path, full_disk: Callable[[], None]
) -> None:
    """In the middle of a copy the disk is full; when there is room, the segment is copied."""
    broker = Tiered(open_store(str(tmp_path)))
    broker.set_topics(topic(replicas=(1,), **{**TIERED, "segment_bytes": "20000"}))
    for number in range(3):
        broker.produce(acks=1, records=record_batch(number, value=bytes(10_000)))
    await broker.copy()
    log = broker.partition().log
    words = rf"there is no room in {tmp_path}: make some \(.*File too large \(os error 27\)\)"
    assert re.fullmatch(words, broker.tiering.trouble)
    assert (log.copied_to, log.local_start_offset, log.log_end_offset) == (0, 0, 3)
    assert files(tmp_path) == ["0000000001"], "the claim alone"
    full_disk()
    await broker.tiering.round()
    assert (broker.tiering.trouble, log.copied_to) == ("", 2)


async def test_credentials_that_run_out_are_said_and_tried_again(answering: Answering) -> None:
    """Credentials of machines and containers are renewed by obstore, so that a later call may succeed."""
    broker = Tiered(open_store("s3://shop/tier"))
    broker.set_topics(topic(replicas=(1,), **TIERED))
    broker.fill()
    answering.answers = [(400, answer("ExpiredToken", "It is over."))]
    await broker.copy()
    assert broker.tiering.trouble == (
        "the credentials for s3://shop/tier ran out: renew them; a process reads its environment once "
        "(400 Bad Request: ExpiredToken: It is over.)"
    )
    assert broker.partition().log.local_start_offset == 0
    answering.answers = [(503, "")]
    await broker.tiering.round()
    assert broker.tiering.trouble == "503 Service Unavailable", "it was asked again"
