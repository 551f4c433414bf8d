"""Real clients' transactions: what a consumer of the same client sees of them, and producers that are fenced."""

from __future__ import annotations

import pytest

from tests.compat.conftest import RunningCluster
from tests.compat.programs import INSTALL_TIMEOUT_SECONDS
from tests.compat.transactions.conftest import Start, create

# Its first test installs what a client needs.
pytestmark = pytest.mark.timeout(INSTALL_TIMEOUT_SECONDS + 60)

OTHERS = ("kafka-python", "kafkajs", "franz-go", "sarama", "java")
CLIENTS = ["confluent-kafka", "aiokafka", *(pytest.param(client, marks=pytest.mark.heavy) for client in OTHERS)]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_consumer_sees_committed_records_and_skips_aborted_ones(
    cluster: RunningCluster, worker_of: Start, topic: str, client: str
) -> None:
    create(cluster.bootstrap, **{topic: 1})
    worker = worker_of(cluster, client)
    worker.do(f"init id-{topic}")
    worker.do("begin", f"send {topic} one", f"send {topic} two", "commit")
    worker.do("begin", f"send {topic} three", "abort")
    worker.do("begin", "commit")
    worker.do("begin", "abort")
    worker.do("begin", f"send {topic} four", "commit")
    assert worker.values(topic, "committed", 3) == ["one", "two", "four"]
    assert worker.values(topic, "uncommitted", 4) == ["one", "two", "three", "four"]
    worker.stop()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_second_producer_of_an_id_ends_the_first_ones_transaction_and_fences_it(
    cluster: RunningCluster, worker_of: Start, topic: str, client: str
) -> None:
    create(cluster.bootstrap, **{topic: 1})
    first, second = (worker_of(cluster, client) for _ in range(2))
    first.do(f"init id-{topic}", "begin", f"send {topic} zombie")
    second.do(f"init id-{topic}", "begin", f"send {topic} heir")
    assert first.ask("commit") == "fenced"
    second.do("commit")
    assert second.values(topic, "committed", 1) == ["heir"]
    assert second.values(topic, "uncommitted", 2) == ["zombie", "heir"]
    second.stop()
