"""The rules about brokers that do not run, or stand still."""

from __future__ import annotations

from tests.admin.operations.reading.why.documents import broker, facts, partition, said


def test_a_cluster_without_a_running_broker_is_dead() -> None:
    assert said(facts(brokers=[broker(1, state="killed"), broker(2, state="stopped")])) == [
        "no broker runs: 1 and 2 were stopped or killed; start one"
    ]
    assert said(facts(brokers=[broker(1, state="killed")])) == ["no broker runs: 1 was stopped or killed; start one"]
    assert said(facts()) == []


def test_partitions_without_a_leader_name_the_brokers_that_could_lead_them() -> None:
    brokers = [broker(1), broker(2, state="killed"), broker(3, state="killed")]
    alone = partition("orders", offline=True, leader=-1, replicas=[{"broker": 2}])
    assert said(facts(brokers=brokers, partitions=[alone])) == [
        "orders-0 has no leader: broker 2 of its replicas does not run; start it"
    ]
    replicas = [{"broker": 2}, {"broker": 3}]
    two = [partition("orders", number, offline=True, leader=-1, replicas=replicas) for number in range(2)]
    assert said(facts(brokers=brokers, partitions=two)) == [
        "orders-0 and 1 more partition of it have no leader: brokers 2 and 3, its replicas, do not run; start one"
    ]
    held = partition("orders", offline=True, leader=-1, replicas=[{"broker": 1}])
    assert said(facts(brokers=brokers, partitions=[held])) == ["orders-0 has no leader"]
    elected = partition("orders", offline=True, leader=1, replicas=[{"broker": 1}])
    assert said(facts(brokers=brokers, partitions=[elected])) == [
        "orders-0 has no leader: broker 1 is elected, and waits to hear what the tier has of it"
    ]


def test_a_paused_broker_is_named_with_what_it_leads() -> None:
    brokers = [broker(1, paused=True), broker(2)]
    assert said(facts(brokers=brokers, partitions=[partition("orders")])) == [
        "broker 1 is paused, and leads orders: what it is asked waits; resume it"
    ]
    assert said(facts(brokers=brokers)) == ["broker 1 is paused: what it is asked waits; resume it"]
