"""The exposition: names, labels and values as a scrape sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from purgatorio.admin.metrics.coordinators import group_steps
from purgatorio.admin.metrics.prometheus import BrokerCollector, MembershipCollector, ScrapedMetrics, process_registry
from purgatorio.admin.metrics.replicas import MAX_TOPICS, OTHER_TOPICS, STEP
from purgatorio.broker.log.memory import MemoryBudget
from purgatorio.broker.log.producer_state import ProducerStates
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import BrokerRegistration, ClusterImage, PartitionState, Topic
from purgatorio.broker.metrics.counters import BrokerMetrics
from purgatorio.broker.node.resident_memory import MemoryUse
from purgatorio.broker.share.giving_up import NO_DEAD_LETTERS
from purgatorio.broker.share.share_metrics import ShareMetrics
from purgatorio.broker.share.share_session import ShareSessionCache
from purgatorio.broker.txn.overview import TransactionNumbers
from tests.admin.metrics.fake_groups import FakeGroups
from tests.broker.transacting import begin
from tests.endpoints import plaintext

ORDERS = TopicPartition("orders", 0)


@dataclass
class FakePurgatory:
    name: str
    watched: int
    num_delayed: int


@dataclass
class FakeLog:
    log_start_offset: int = 0
    log_end_offset: int = 0
    size_bytes: int = 0
    producers: ProducerStates = field(default_factory=ProducerStates)


@dataclass
class FakePartition:
    tp: TopicPartition
    is_leader: bool = True
    replicas: Sequence[int] = (1, 2, 3)
    isr: Sequence[int] = (1, 2, 3)
    min_in_sync_replicas: int = 1
    high_watermark: int = 0
    log: FakeLog = field(default_factory=FakeLog)
    followers: dict[int, FakeLog] = field(default_factory=dict)

    @property
    def last_stable_offset(self) -> int:
        return self.log.producers.last_stable_offset(self.high_watermark)


class FakeFetchSessions:
    evictions = 2
    partition_count = 30

    def __len__(self) -> int:
        return 3


@dataclass
class FakeCoordinators:
    transaction_numbers: TransactionNumbers = field(default_factory=TransactionNumbers)


class FakeBroker:
    def __init__(self, broker_id: int, image: ClusterImage) -> None:
        self.metrics = BrokerMetrics(broker_id)
        self.purgatories = [FakePurgatory("Produce", 6, 3), FakePurgatory("Fetch", 0, 0)]
        self.partitions: list[FakePartition] = []
        self.image = image
        self.log_memory = MemoryBudget(100_000)
        self.memory_use = MemoryUse(200_000, 900, 17, 5)
        self.fetch_sessions = FakeFetchSessions()
        self.groups = FakeGroups()
        self.coordinators = FakeCoordinators()
        self.quotas: Any = SimpleNamespace(is_active=False, connections=SimpleNamespace(is_active=False))
        unlimited = SimpleNamespace(limit=None)
        self.replicas: Any = SimpleNamespace(leader_throttle=unlimited, follower_throttle=unlimited)
        self.access: Any = None
        self.tiering = None
        self.led_shares: Any = SimpleNamespace(
            sessions=ShareSessionCache(10, lambda session, is_last: None),
            metrics=ShareMetrics(self.metrics, lambda: 0),
            dead_letters=NO_DEAD_LETTERS,
            partitions=[],
        )

    def replica(self, tp: TopicPartition) -> FakePartition | None:
        return next((partition for partition in self.partitions if partition.tp == tp), None)


@pytest.fixture
def brokers() -> list[FakeBroker]:
    """Two brokers; the first is the controller, and one partition of the one topic has no leader."""
    states = (PartitionState(1, 0, (1, 2), (1, 2)), PartitionState(-1, 0, (1, 2), ()))
    image = ClusterImage(
        1,
        "c",
        controller_id=1,
        brokers={i: BrokerRegistration(i, i, plaintext("h", 1)) for i in (1, 2)},
        topics={"orders": Topic("orders", b"i" * 16, states)},
    )
    return [FakeBroker(1, image), FakeBroker(2, image)]


@pytest.fixture
def registry(brokers: list[FakeBroker]) -> CollectorRegistry:
    """With series for each topic, as by default."""
    registry = CollectorRegistry()
    registry.register(BrokerCollector(lambda: brokers))
    return registry


@pytest.fixture
def per_partition(brokers: list[FakeBroker]) -> CollectorRegistry:
    """With series for each partition."""
    registry = CollectorRegistry()
    registry.register(BrokerCollector(lambda: brokers, per_partition=True))
    return registry


def series(registry: CollectorRegistry, name: str) -> dict[tuple[str, ...], float]:
    """The series of one name: label values in the order of the labels' names, and the value."""
    found = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            if sample.name == name:
                found[tuple(value for _, value in sorted(sample.labels.items()))] = sample.value
    return found


def test_what_waits_is_shown_as_the_documentation_promises(registry: CollectorRegistry) -> None:
    """The very line that a user looks for with curl."""
    text = generate_latest(registry).decode()
    name = "kafka_server_delayedoperationpurgatory"
    assert f'{name}_numdelayedoperations{{broker="1",delayedOperation="Produce"}} 3.0\n' in text
    assert f'{name}_purgatorysize{{broker="2",delayedOperation="Produce"}} 6.0\n' in text


def test_a_family_is_declared_once_for_all_brokers(registry: CollectorRegistry) -> None:
    """The text format allows one TYPE line per family, however many brokers share the process."""
    types = [line for line in generate_latest(registry).decode().splitlines() if line.startswith("# TYPE")]
    assert len(types) == len(set(types))


def test_topics_are_shown_by_the_brokers_that_hold_them(brokers: list[FakeBroker], registry: CollectorRegistry) -> None:
    """A client's made-up topic names never become series; what a follower gives to consumers does (KIP-392)."""
    tp = TopicPartition("orders", 0)
    brokers[0].partitions = [FakePartition(tp)]
    brokers[1].partitions = [FakePartition(tp, is_leader=False)]
    brokers[0].metrics.appended(tp, 2, 50)
    brokers[1].metrics.fetched(tp, 40)
    for broker in brokers:
        broker.metrics.append_failed(TopicPartition("nonsense", 7))
    messages_in = series(registry, "kafka_server_brokertopicmetrics_messagesin_total")
    assert messages_in == {("1", "orders"): 2.0, ("2", "orders"): 0.0}
    bytes_out = series(registry, "kafka_server_brokertopicmetrics_bytesout_total")
    assert bytes_out == {("1", "orders"): 0.0, ("2", "orders"): 40.0}


def test_expirations_are_shown_by_the_leader_only(brokers: list[FakeBroker], per_partition: CollectorRegistry) -> None:
    tp = TopicPartition("orders", 0)
    partition = FakePartition(tp)
    brokers[0].partitions = [partition]
    brokers[0].metrics.produce_expired(tp)
    brokers[0].metrics.fetch_expired(follower=True)
    name = "kafka_server_delayedproducemetrics_expires_total"
    assert series(per_partition, name) == {("1", "0", "orders"): 1.0}
    assert series(per_partition, "kafka_server_delayedfetchmetrics_expires_total")[("1", "follower")] == 1.0
    assert series(per_partition, "kafka_server_delayedfetchmetrics_expires_total")[("1", "consumer")] == 0.0
    partition.is_leader = False
    assert series(per_partition, name) == {}


def test_requests_have_kafkas_names_versions_and_a_histogram(
    brokers: list[FakeBroker], registry: CollectorRegistry
) -> None:
    """Versions are counted apart; the time histogram is cumulative and of the API as a whole."""
    for version, seconds in ((9, 0.0002), (12, 0.02), (12, 99.0)):
        brokers[0].metrics.request(2, version, seconds)
    brokers[0].metrics.request(9999, 0, 0.0)
    assert series(registry, "kafka_network_requestmetrics_requests_total") == {
        ("1", "ListOffsets", "9"): 1.0,
        ("1", "ListOffsets", "12"): 2.0,
        ("1", "Other", "0"): 1.0,
    }
    buckets = series(registry, "kafka_network_requestmetrics_totaltimems_bucket")
    assert buckets["1", "0.1", "ListOffsets"] == 0.0
    assert buckets["1", "0.25", "ListOffsets"] == 1.0
    assert buckets["1", "30000.0", "ListOffsets"] == 2.0
    assert buckets["1", "+Inf", "ListOffsets"] == 3.0
    total_ms = series(registry, "kafka_network_requestmetrics_totaltimems_sum")["1", "ListOffsets"]
    assert total_ms == pytest.approx(99020.2)


def test_replicas_show_their_logs_and_leaders_their_followers(
    brokers: list[FakeBroker], per_partition: CollectorRegistry
) -> None:
    log = FakeLog(log_start_offset=5, log_end_offset=42, size_bytes=900)
    begin(log.producers, 7, 33, 1_000)
    followers = {2: FakeLog(log_end_offset=40), 3: FakeLog(log_end_offset=-1)}
    tp = TopicPartition("orders", 1)
    brokers[0].partitions = [FakePartition(tp, isr=(1, 2), high_watermark=40, log=log, followers=followers)]
    brokers[1].partitions = [FakePartition(tp, is_leader=False, high_watermark=38, log=FakeLog(5, 40, 800))]
    one, two = ("1", "1", "orders"), ("2", "1", "orders")
    assert series(per_partition, "kafka_log_log_logendoffset") == {one: 42.0, two: 40.0}
    assert series(per_partition, "kafka_log_log_logstartoffset") == {one: 5.0, two: 5.0}
    assert series(per_partition, "kafka_log_log_size") == {one: 900.0, two: 800.0}
    assert series(per_partition, "purgatorio_partition_highwatermark") == {one: 40.0, two: 38.0}
    assert series(per_partition, "purgatorio_partition_highwatermarklag") == {one: 2.0}
    assert series(per_partition, "kafka_cluster_partition_laststableoffsetlag") == {one: 7.0}
    assert series(per_partition, "kafka_cluster_partition_underreplicated") == {one: 1.0}
    assert series(per_partition, "purgatorio_follower_lag") == {
        ("1", "2", "1", "orders"): 2.0,
        ("1", "3", "1", "orders"): 37.0,
    }


def test_fetch_sessions_are_counted_with_their_partitions(registry: CollectorRegistry) -> None:
    prefix = "kafka_server_fetchsessioncache"
    assert series(registry, f"{prefix}_numincrementalfetchsessions")["1",] == 3.0
    assert series(registry, f"{prefix}_numincrementalfetchpartitionscached")["1",] == 30.0
    assert series(registry, f"{prefix}_incrementalfetchsessionevictions_total")["1",] == 2.0


def test_a_topic_has_the_sums_of_its_partitions(brokers: list[FakeBroker], registry: CollectorRegistry) -> None:
    for index, log in enumerate((FakeLog(5, 42, 900), FakeLog(0, 8, 100))):
        followers = {2: FakeLog(log_end_offset=log.log_end_offset - 3)}
        tp = TopicPartition("orders", index)
        replica = FakePartition(tp, isr=(1, 2), high_watermark=log.log_end_offset - 2, log=log, followers=followers)
        brokers[0].partitions.append(replica)
        brokers[0].metrics.produce_expired(tp)
        brokers[1].partitions.append(FakePartition(tp, is_leader=False, log=FakeLog(log_end_offset=1)))
    one, two = ("1", "orders"), ("2", "orders")
    assert series(registry, "kafka_log_log_logendoffset") == {one: 50.0, two: 2.0}
    assert series(registry, "kafka_log_log_size") == {one: 1000.0, two: 0.0}
    assert series(registry, "purgatorio_partition_highwatermarklag") == {one: 4.0}
    assert series(registry, "kafka_cluster_partition_replicascount") == {one: 6.0}
    assert series(registry, "kafka_cluster_partition_underreplicated") == {one: 2.0}
    assert series(registry, "purgatorio_follower_lag") == {("1", "2", "orders"): 6.0}
    assert series(registry, "kafka_server_delayedproducemetrics_expires_total") == {one: 2.0}


def test_topics_past_the_bound_share_their_series(brokers: list[FakeBroker], registry: CollectorRegistry) -> None:
    """A broker may hold thousands of topics: a scrape of all their series would hold the event loop."""
    for number in range(MAX_TOPICS + 3):
        tp = TopicPartition(f"t{number}", 0)
        brokers[0].partitions.append(FakePartition(tp, log=FakeLog(log_end_offset=7)))
        brokers[0].metrics.appended(tp, 1, 10)
    ends = series(registry, "kafka_log_log_logendoffset")
    assert len(ends) == MAX_TOPICS + 1
    assert ends["1", OTHER_TOPICS] == 21.0
    assert series(registry, "kafka_server_replicamanager_partitioncount")[("1",)] == MAX_TOPICS + 3
    bytes_in = series(registry, "kafka_server_brokertopicmetrics_bytesin_total")
    assert (len(bytes_in), bytes_in["1", OTHER_TOPICS]) == (MAX_TOPICS + 1, 30.0)


@pytest.mark.parametrize("by_partition", [False, True])
def test_a_scrape_of_many_partitions_pauses_after_each_step(brokers: list[FakeBroker], by_partition: bool) -> None:
    brokers[0].partitions = [FakePartition(TopicPartition("orders", index)) for index in range(4 * STEP)]
    steps = list(BrokerCollector(lambda: brokers, per_partition=by_partition).steps())
    pauses = steps.index(next(metric for metric in steps if metric is not None))
    assert pauses == (8 if by_partition else 4), "after each step of reading, and of making the first family's series"


def test_the_replica_manager_counts_what_needs_attention(
    brokers: list[FakeBroker], registry: CollectorRegistry
) -> None:
    """Only a leader says that its partition lacks replicas, so that a sum over brokers counts it once."""
    for leads, broker in zip((True, False), brokers, strict=True):
        broker.partitions = [
            FakePartition(TopicPartition("a", 0), is_leader=leads, isr=(1,), min_in_sync_replicas=2),
            FakePartition(TopicPartition("a", 1), is_leader=leads, isr=(1, 2), min_in_sync_replicas=2),
            FakePartition(TopicPartition("a", 2), is_leader=leads, min_in_sync_replicas=2),
        ]
    brokers[0].metrics.isr_shrunk()
    brokers[0].metrics.isr_expanded()
    expected = {
        "partitioncount": (3, 3),
        "leadercount": (3, 0),
        "underreplicatedpartitions": (2, 0),
        "underminisrpartitioncount": (1, 0),
        "atminisrpartitioncount": (1, 0),
        "isrshrinks_total": (1, 0),
        "isrexpands_total": (1, 0),
    }
    for name, (first, second) in expected.items():
        assert series(registry, f"kafka_server_replicamanager_{name}") == {("1",): first, ("2",): second}, name


def test_the_controller_speaks_for_the_cluster(registry: CollectorRegistry) -> None:
    prefix = "kafka_controller_kafkacontroller"
    assert series(registry, f"{prefix}_activecontrollercount") == {("1",): 1.0, ("2",): 0.0}
    expected = {
        "globaltopiccount": 1,
        "globalpartitioncount": 2,
        "offlinepartitionscount": 1,
    }
    for name, value in expected.items():
        assert series(registry, f"{prefix}_{name}") == {("1",): value}, name


def test_each_broker_counts_those_that_live_and_those_that_are_fenced(
    brokers: list[FakeBroker], registry: CollectorRegistry
) -> None:
    prefix = "kafka_controller_kafkacontroller"
    image = brokers[1].image
    brokers[1].image = image.with_broker(replace(image.brokers[1], fenced=True))
    assert series(registry, f"{prefix}_activebrokercount") == {("1",): 2.0, ("2",): 1.0}
    assert series(registry, f"{prefix}_fencedbrokercount") == {("1",): 0.0, ("2",): 1.0}


def test_the_numbers_of_brokers_are_reported_where_none_runs() -> None:
    registry, prefix = CollectorRegistry(), "kafka_controller_kafkacontroller"
    registry.register(MembershipCollector(lambda: (1, 2)))
    assert series(registry, f"{prefix}_activebrokercount") == {(): 1.0}
    assert series(registry, f"{prefix}_fencedbrokercount") == {(): 2.0}


def test_connections_and_their_bytes(brokers: list[FakeBroker], registry: CollectorRegistry) -> None:
    metrics = brokers[1].metrics
    metrics.connection_opened()
    metrics.bytes_in(100)
    metrics.bytes_out(30)
    metrics.replicated_in(7)
    metrics.replicated_out(9)
    metrics.refused("idle")
    prefix = "kafka_server_socket_server_metrics"
    assert series(registry, f"{prefix}_connection_count") == {("1",): 0.0, ("2",): 1.0}
    assert series(registry, f"{prefix}_incoming_byte_total")[("2",)] == 100.0
    assert series(registry, f"{prefix}_outgoing_byte_total")[("2",)] == 30.0
    assert series(registry, "kafka_server_brokertopicmetrics_replicationbytesin_total")[("2",)] == 7.0
    assert series(registry, "kafka_server_brokertopicmetrics_replicationbytesout_total")[("2",)] == 9.0
    assert series(registry, "kafka_network_socketserver_memorypoolused")[("1",)] == 17.0
    assert series(registry, "purgatorio_refusals_total") == {("2", "idle"): 1.0}


def test_the_memory_of_the_logs_and_what_of_it_is_not_committed(
    brokers: list[FakeBroker], registry: CollectorRegistry
) -> None:
    memory = brokers[0].log_memory
    memory.used_bytes, memory.evicted_bytes = 900, 70
    memory.led.used_bytes, memory.followed.used_bytes = 300, 40
    prefix = "purgatorio_log_memory"
    assert series(registry, f"{prefix}_used_bytes") == {("1",): 900.0, ("2",): 0.0}
    uncommitted = series(registry, f"{prefix}_uncommitted_bytes")
    assert (uncommitted["1", "leader"], uncommitted["1", "follower"], uncommitted["2", "leader"]) == (300.0, 40.0, 0.0)
    assert series(registry, f"{prefix}_evicted_bytes_total") == {("1",): 70.0, ("2",): 0.0}


def test_what_takes_the_memory_of_a_broker(registry: CollectorRegistry) -> None:
    assert series(registry, "purgatorio_memory_limit_bytes")[("1",)] == 200_000.0
    used = series(registry, "purgatorio_memory_used_bytes")
    assert (used["1", "logs"], used["1", "requests"], used["1", "answers"]) == (900.0, 17.0, 5.0)


def test_brokers_that_come_and_go_need_no_registration(brokers: list[FakeBroker], registry: CollectorRegistry) -> None:
    """The collector asks at every scrape which brokers there are."""
    brokers.pop()
    assert set(series(registry, "kafka_server_replicamanager_partitioncount")) == {("1",)}


def test_the_process_has_metrics() -> None:
    assert series(process_registry(), "process_resident_memory_bytes")


def test_a_snapshot_stays_as_it_was(brokers: list[FakeBroker], registry: CollectorRegistry) -> None:
    """So its text can be made in another thread while the brokers go on."""
    before = generate_latest(registry)
    snapshot = ScrapedMetrics(registry.collect())
    brokers[0].metrics.bytes_in(5)
    assert generate_latest(snapshot) == before != generate_latest(registry)


def test_groups_are_counted_by_state(brokers: list[FakeBroker], registry: CollectorRegistry) -> None:
    brokers[0].groups.group_states = ["Stable", "Stable", "Empty", "PreparingRebalance"]
    prefix = "kafka_coordinator_group_groupmetadatamanager_numgroups"
    assert series(registry, prefix) == {("1",): 4.0, ("2",): 0.0}
    for state, count in (("stable", 2.0), ("empty", 1.0), ("preparingrebalance", 1.0), ("dead", 0.0)):
        assert series(registry, prefix + state) == {("1",): count, ("2",): 0.0}


def test_commits_are_counted(brokers: list[FakeBroker], registry: CollectorRegistry) -> None:
    brokers[0].groups.commit_count, brokers[0].groups.expiration_count = 7, 2
    brokers[0].groups.offsets = [("app", ORDERS, 5)]
    prefix = "kafka_server_group_coordinator_metrics_offset"
    assert series(registry, f"{prefix}_commit_total") == {("1",): 7.0, ("2",): 0.0}
    assert series(registry, f"{prefix}_expiration_total") == {("1",): 2.0, ("2",): 0.0}
    assert series(registry, "kafka_coordinator_group_groupmetadatamanager_numoffsets") == {("1",): 1.0, ("2",): 0.0}


@pytest.fixture
def behind(brokers: list[FakeBroker]) -> None:
    """Broker 1 coordinates a group that is 5 and 2 records behind; only broker 2 has replicas."""
    other = ORDERS._replace(partition=1)
    brokers[1].partitions = [FakePartition(ORDERS, high_watermark=12), FakePartition(other, high_watermark=9)]
    gone = TopicPartition("gone", 0)
    brokers[0].groups.offsets = [("app", ORDERS, 7), ("app", other, 7), ("ahead", ORDERS, 13), ("app", gone, 3)]


@pytest.mark.usefixtures("behind")
def test_the_lag_of_a_group_is_the_sum_over_a_topic(registry: CollectorRegistry) -> None:
    assert series(registry, "kafka_consumergroup_lag") == {("1", "app", "orders"): 7.0, ("1", "ahead", "orders"): 0.0}


@pytest.mark.usefixtures("behind")
def test_the_lag_of_a_group_by_partition(per_partition: CollectorRegistry) -> None:
    assert series(per_partition, "kafka_consumergroup_lag") == {
        ("1", "app", "0", "orders"): 5.0,
        ("1", "app", "1", "orders"): 2.0,
        ("1", "ahead", "0", "orders"): 0.0,
    }


def test_the_lag_of_many_groups_is_read_in_steps(brokers: list[FakeBroker]) -> None:
    brokers[0].partitions = [FakePartition(ORDERS, high_watermark=12)]
    brokers[0].groups.offsets = [(f"g{nth}", ORDERS, 7) for nth in range(3 * STEP)]
    brokers[0].groups.group_states = ["Empty"] * 3 * STEP
    pauses = sum(metric is None for metric in group_steps(brokers, per_partition=False))
    assert pauses == 9


def test_transactions_are_counted_by_their_coordinator(brokers: list[FakeBroker], registry: CollectorRegistry) -> None:
    brokers[0].coordinators.transaction_numbers = TransactionNumbers(
        ids=9, open=2, missing_markers=3, committed=40, aborted=5, timed_out=1, expired=6, verifications=70
    )
    brokers[1].coordinators.transaction_numbers = TransactionNumbers(failed_verifications=8)
    brokers[1].groups.transactional_offset_count = 4
    counted = {
        "purgatorio_transactional_ids": (9, 0),
        "purgatorio_transactions_open": (2, 0),
        "purgatorio_transaction_markers_missing": (3, 0),
        "purgatorio_transactions_committed_total": (40, 0),
        "purgatorio_transactions_aborted_total": (5, 0),
        "purgatorio_transactions_timed_out_total": (1, 0),
        "purgatorio_transactional_ids_expired_total": (6, 0),
        "purgatorio_transaction_verifications_total": (70, 0),
        "kafka_server_addpartitionstotxnmanager_verificationfailurerate_total": (0, 8),
        "purgatorio_transactional_offsets": (0, 4),
    }
    for name, (one, two) in counted.items():
        assert series(registry, name) == {("1",): one, ("2",): two}, name


def test_partitions_with_transactions_that_have_outlived_any_timeout_are_counted(
    brokers: list[FakeBroker], registry: CollectorRegistry
) -> None:
    for broker in brokers:
        broker.coordinators.transaction_numbers = TransactionNumbers(late_before_ms=1_000)
        for index, started_ms in enumerate((999, 1_000)):
            log = FakeLog()
            begin(log.producers, 7, 0, started_ms)
            is_leader = broker is brokers[0]
            broker.partitions.append(FakePartition(TopicPartition("orders", index), is_leader=is_leader, log=log))
    late = "kafka_server_replicamanager_partitionswithlatetransactionscount"
    assert series(registry, late) == {("1",): 1, ("2",): 0}
    assert series(registry, "kafka_server_replicamanager_produceridcount") == {("1",): 2, ("2",): 2}
