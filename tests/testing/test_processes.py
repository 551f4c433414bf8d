"""`cluster(processes=True)`: the same controls over brokers that are processes of their own."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from purgatorio.broker.cluster.cluster import BrokerStateError
from purgatorio.protocol.errors import ErrorCode
from purgatorio.testing import Kafka, cluster
from tests.testing.sharing import ShareMember, configure_group

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with cluster(processes=True, topics={"orders": 2}, min_insync_replicas=2) as running:
        yield running


def producer(kafka: Kafka) -> Producer:
    return Producer(
        {**kafka.client_config("confluent", "producer"), "acks": "all", "client.id": "shop", "log_level": 0}
    )


@pytest.mark.smoke
def test_a_produce_waits_for_a_held_follower_and_is_answered_when_it_is_let_go(kafka: Kafka) -> None:
    leader = kafka.leader("orders")
    follower = next(each for each in kafka.brokers if each != leader)
    kafka.hold_follower(follower)
    shop = producer(kafka)
    shop.produce("orders", b"pears", partition=0)
    shop.poll(0)
    (parked,) = kafka.until_parked(api="Produce", client="shop").wait()
    assert (parked.broker, parked.keys) == (leader, ("orders-0",))
    assert f"broker {follower} is at 0 of 1" in parked.missing
    report = kafka.report()
    assert re.search(
        rf"  broker {leader} Produce of shop, \d+ ms, \d+ ms left: orders-0: broker {follower} is ", report
    )
    assert report.startswith(f"shop waits for acks=all of orders-0: broker {follower} is at 0 of 1, which is held")
    assert "\nbrokers: 1 at 127.0.0.1:" in report
    assert "connected clients: shop" in report
    assert "shop" in kafka.clients
    kafka.release()
    assert shop.flush(10) == 0
    kafka.until_in_sync("orders").wait()
    assert b"pears" in [record.value for record in kafka.records("orders", 0)]


@pytest.mark.ci
def test_what_is_no_purgatory_is_refused_by_processes_too(kafka: Kafka) -> None:
    """A wait for it would never end."""
    assert kafka.parked(api="Persister") == []  # one that is made when it is needed
    with pytest.raises(
        ValueError, match=r"there is no purgatory 'Perister'; did you mean Persister\? There are Persister, "
    ):
        kafka.parked(api="Perister")
    with pytest.raises(ValueError, match="there is no purgatory 'JoinGroup', only Produce, Fetch, "):
        kafka.until_parked(api="JoinGroup").wait(1)


@pytest.mark.ci
def test_records_that_a_leader_refuses_are_refused_with_its_reason(kafka: Kafka) -> None:
    kafka.topic("prices", cleanup_policy="compact")
    with pytest.raises(ValueError, match="prices-0: record 0 of the batch: it has no key, and the topic is compacted"):
        kafka.produce("prices", b"7")
    with pytest.raises(ValueError, match=r"prices-0: a batch of [0-9]+ bytes is larger than"):
        kafka.produce("prices", b"x" * 2_000_000, key="pears")


@pytest.mark.ci
def test_what_waits_for_a_group_is_found_by_its_whole_name(kafka: Kafka) -> None:
    consumer = Consumer(kafka.client_config("confluent", "consumer") | {"group.id": "billing-late", "log_level": 0})
    with contextlib.closing(consumer):
        consumer.subscribe(["orders"])
        while not (waiting := kafka.parked(api="Heartbeat", group="billing-late")):
            consumer.poll(0.05)
        assert [each.id for each in waiting] == [each.id for each in kafka.parked(api="Heartbeat")]
        assert kafka.parked(api="Heartbeat", group="billing") == []


@pytest.mark.ci
def test_changes_of_leaders_are_told(kafka: Kafka) -> None:
    leader = kafka.leader("orders")
    moved = kafka.move_leader("orders")
    assert f"orders-0: leader {leader} → {moved}" in kafka.report()
    kafka.clock.advance(301)
    assert kafka.leader("orders") == leader, "the preferred one"


@pytest.mark.ci
def test_a_killed_broker_is_a_killed_process_and_starts_again(kafka: Kafka) -> None:
    leader = kafka.leader("orders", 1)
    first = kafka.produce("orders", "a", partition=1)
    kafka.kill(leader)
    assert kafka.produce("orders", "b", partition=1) == first + 1
    assert leader not in kafka.brokers
    assert f"{leader} (has ended: SIGKILL)" in kafka.report()
    with pytest.raises(BrokerStateError, match=f"broker {leader} is not running"):
        kafka.kill(leader)
    assert kafka.leader("orders", 1) != leader
    kafka.start(leader)
    kafka.until_in_sync("orders").wait()
    assert kafka.brokers == [1, 2, 3]
    kafka.kill(kafka.leader("orders", 1))
    assert [record.value for record in kafka.records("orders", 1)][-2:] == [b"a", b"b"]
    kafka.start(next(each for each in (1, 2, 3) if each not in kafka.brokers))
    kafka.until_in_sync("orders").wait()


@pytest.mark.ci
def test_topics_groups_and_transactions_are_read_over_the_wire(kafka: Kafka) -> None:
    assert kafka.topic("bills", partitions=3, cleanup_policy="compact") == "bills"
    with pytest.raises(ValueError, match=r"there is no topic config 'cleanup\.polciy'"):
        kafka.topic("more", cleanup_polciy="compact")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match=r"topic 'bills' was not created: Topic 'bills' exists already\."):
        kafka.topic("bills")
    settings = kafka.client_config("confluent", "producer") | {"transactional.id": "till", "log_level": 0}
    till = Producer(settings)
    till.init_transactions(10)
    for value, end in ((b"kept", till.commit_transaction), (b"gone", till.abort_transaction)):
        till.begin_transaction()
        till.produce("bills", value, key=value, partition=2)
        till.flush(10)
        end(10)
    assert [each.value for each in kafka.records("bills", isolation_level="read_committed")] == [b"kept"]
    assert [each.value for each in kafka.records("bills", 2)] == [b"kept", b"gone"]
    consumer = Consumer(kafka.client_config("confluent", "consumer") | {"group.id": "g", "log_level": 0})
    consumer.subscribe(["bills"])
    while (group := kafka.group("g")) is None or group.state != "Stable":
        consumer.poll(0.05)
    assert kafka.until(group="g", state="Stable", members=1).wait() == group
    consumer.close()


@pytest.mark.ci
@pytest.mark.parametrize(
    "refused",
    [
        lambda kafka: kafka.snapshot(),
        lambda kafka: kafka.reset(),
        lambda kafka: kafka.fault(api="Produce", error="NOT_LEADER_OR_FOLLOWER"),
        lambda kafka: kafka.requests(),
    ],
    ids=["snapshot", "reset", "fault", "requests"],
)
def test_what_needs_brokers_in_the_tests_process_says_so(kafka: Kafka, refused: Callable[[Kafka], object]) -> None:
    with pytest.raises(ValueError, match="brokers in the test's own process: start the cluster without processes=True"):
        refused(kafka)


def test_options_that_do_not_go_with_processes_are_refused() -> None:
    with (
        pytest.raises(ValueError, match="tls and processes=True do not go together"),
        cluster(processes=True, tls=True),
    ):
        pass


@pytest.mark.ci
def test_a_share_group_shows_its_acquired_records_and_lets_their_locks_run_out(kafka: Kafka) -> None:
    kafka.topic("parcels")
    kafka.produce("parcels", "a")
    configure_group(kafka.bootstrap, "carriers", {"share.auto.offset.reset": "earliest"})
    admin = AdminClient(kafka.client_config("confluent", "admin"))
    topic_id = admin.describe_topics(TopicCollection(["parcels"]))["parcels"].result(30).topic_id
    number = (topic_id.get_most_significant_bits() % 2**64 << 64) + topic_id.get_least_significant_bits() % 2**64
    addresses = dict(zip(kafka.brokers, kafka.bootstrap.split(","), strict=True))

    def member(broker: int) -> ShareMember:
        host, _, port = addresses[broker].rpartition(":")
        return ShareMember((host, int(port)), "carriers", "ada", number.to_bytes(16))

    with contextlib.ExitStack() as stack:
        at = {broker: stack.enter_context(member(broker)) for broker in kafka.brokers}
        at[1].find_coordinator()
        group, ada = kafka.share_group("carriers"), at[kafka.leader("parcels")]
        while not any(each.heartbeat(0, "parcels").error_code == ErrorCode.NONE for each in at.values()):
            pass  # only the coordinator takes it, and only when it has loaded the group
        while not (acquired := ada.fetch()):
            pass  # the leader learns the start offset from the coordinator
        assert acquired == [(0, 0, 1)]
        (held,) = group.until_acquired().wait()
        assert (held.topic, held.offsets, held.member) == ("parcels", range(1), "ada")
        assert group.members == ["ada"]
        assert group.expire_locks() == 1
        assert ada.fetch() == [(0, 0, 2)]
        assert ada.acknowledge(0, 0) == 0
        assert group.start_offsets() == {("parcels", 0): 1}
