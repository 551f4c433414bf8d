"""The series of client quotas, as a scrape sees them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.metrics_core import Metric

from purgatorio.admin.metrics import quotas
from purgatorio.admin.metrics.quotas import quota_steps
from purgatorio.broker.metadata.clients import QuotaEntity
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from purgatorio.protocol.messages.produce import ProduceResponse
from tests.broker.layers.quotas.harness import FakeBroker

MB = 1_000_000


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker()
    broker.handle[ApiKey.PRODUCE] = lambda reply, request: reply(ProduceResponse())
    broker.handle[ApiKey.CREATE_TOPICS] = lambda reply, request: reply(CreateTopicsResponse())
    return broker


def scrape(broker: FakeBroker) -> dict[str, dict[tuple[str, ...], float]]:
    """All series: by name, by the values of their labels."""
    view: Any = SimpleNamespace(metrics=SimpleNamespace(broker_id=1), quotas=broker.quotas, replicas=broker.replicas)
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for metric in quota_steps([view]):
        if isinstance(metric, Metric):
            for sample in metric.samples:
                found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def test_without_quotas_there_are_no_series(broker: FakeBroker) -> None:
    """Also after the last one was removed (KAFKA-19282)."""
    assert scrape(broker) == {}
    broker.limit(client_id="", producer_byte_rate=MB)
    broker.client().ask(ApiKey.PRODUCE, version=9, request_bytes=12 * MB)
    broker.limit(client_id="")
    assert scrape(broker) == {}
    broker.limit(client_id="", producer_byte_rate=MB)
    assert "kafka_server_produce_byte_rate" not in scrape(broker)
    assert "kafka_network_requestmetrics_throttletimems_count" not in scrape(broker)


def test_a_client_has_its_rate_and_its_throttle_time(broker: FakeBroker) -> None:
    broker.limit(user="", client_id="", producer_byte_rate=MB)
    broker.client("fast", user="al ice").ask(ApiKey.PRODUCE, version=9, request_bytes=12 * MB)
    broker.client("slow").ask(ApiKey.PRODUCE, version=9, request_bytes=MB)
    series = scrape(broker)
    fast, slow = ("1", "al+ice", "fast"), ("1", "alice", "slow")
    assert series["kafka_server_produce_byte_rate"] == {fast: 1_200_000, slow: 100_000}
    assert series["kafka_server_produce_throttle_time"] == {fast: 2_000}
    assert series["kafka_server_produce_queue_size"] == {("1",): 1}
    assert series["kafka_server_fetch_queue_size"] == {("1",): 0}
    assert series["kafka_network_requestmetrics_throttletimems_count"] == {("1", "Produce"): 1}
    assert series["kafka_network_requestmetrics_throttletimems_sum"] == {("1", "Produce"): 2_000}
    assert "kafka_server_fetch_byte_rate" not in series


def test_a_user_with_all_clients_has_one_series(broker: FakeBroker) -> None:
    broker.limit(user="alice", producer_byte_rate=MB)
    for client_id in ("a", "b"):
        broker.client(client_id).ask(ApiKey.PRODUCE, version=9, request_bytes=MB)
    assert scrape(broker)["kafka_server_produce_byte_rate"] == {("1", "alice", ""): 200_000}


def test_request_time_and_that_of_exempt_requests(broker: FakeBroker) -> None:
    broker.limit(client_id="", request_percentage=50)
    broker.handler_seconds = 0.5
    broker.client().ask(ApiKey.PRODUCE, version=9)
    broker.handle[ApiKey.PRODUCE] = lambda reply, request: reply.nothing()
    broker.client().ask(ApiKey.PRODUCE, version=9)
    series = scrape(broker)
    assert series["kafka_server_request_request_time"] == {("1", "", "billing"): 5}
    assert series["kafka_server_request_exempt_request_time"] == {("1",): 5}


def test_tokens_of_those_who_change_the_cluster(broker: FakeBroker) -> None:
    broker.limit(client_id="", controller_mutation_rate=1)
    topics = [CreatableTopic(name="a", num_partitions=15, replication_factor=1)]
    broker.client().ask(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=topics), version=5)
    series = scrape(broker)
    client = ("1", "", "billing")
    assert series["kafka_server_controllermutation_tokens"] == {client: -4}
    assert series["kafka_server_controllermutation_mutation_rate"] == {client: 1.5}
    assert series["kafka_server_controllermutation_throttle_time"] == {client: 4_000}


def test_clients_with_series_are_limited_and_end_when_idle(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "MAX_CLIENTS", 2)
    broker.limit(client_id="", producer_byte_rate=MB)
    for client_id in ("a", "b", "c"):
        broker.client(client_id).ask(ApiKey.PRODUCE, version=9, request_bytes=MB)
    assert {labels[2] for labels in scrape(broker)["kafka_server_produce_byte_rate"]} == {"b", "c"}
    broker.passes(3_600_000)
    assert "kafka_server_produce_byte_rate" not in scrape(broker)


def test_how_long_connections_were_kept_that_came_too_fast(broker: FakeBroker) -> None:
    quotas = broker.image.client_quotas | {QuotaEntity(ip="192.0.2.1"): {"connection_creation_rate": 0.1}}
    broker.quotas.image_changed(broker.image.with_client_quotas(quotas))
    for _ in range(2):
        broker.quotas.connections.refuse_after_ms("192.0.2.1")
    assert scrape(broker) == {"kafka_server_socket_server_metrics_ip_connection_accept_throttle_time": {("1",): 1_000}}


def test_throttled_replication_has_a_rate_while_there_is_a_limit(broker: FakeBroker) -> None:
    throttle = broker.replicas.leader_throttle
    throttle.limit = 10
    throttle.record(500)
    assert scrape(broker) == {"kafka_server_leaderreplication_byte_rate": {("1",): 500}}
