"""Commands that move leaders and coordinators, end sessions and transactions, and compact, on a running cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from purgatorio.testing import Kafka

Run = Callable[[str], str]


def test_a_leader_is_moved_and_taken_away(command: Run, controlled: Kafka) -> None:
    other = next(each for each in controlled.brokers if each != controlled.leader("orders", 1))
    assert command(f"topics move-leader orders 1 --to {other}") == f"orders-1: broker {other} is the leader"
    assert controlled.leader("orders", 1) == other
    assert command("topics no-leader orders 1").startswith("orders-1 has no leader, until")
    with pytest.raises(ValueError, match="orders-1 has no leader now"):
        controlled.leader("orders", 1)
    assert command("topics move-leader orders 1").startswith("orders-1: broker ")


async def test_a_groups_coordinator_is_moved_and_its_members_session_ended(command: Run, controlled: Kafka) -> None:
    settings = controlled.client_config("aiokafka", "consumer") | {"enable_auto_commit": False}
    async with AIOKafkaConsumer("orders", group_id="billing", client_id="one", **settings) as consumer:
        before = await controlled.until(group="billing", state="Stable", members=1)
        to = next(each for each in controlled.brokers if each != before.coordinator)
        said = await asyncio.to_thread(command, f"groups move-coordinator billing --to {to}")
        assert said == f"broker {to} is the coordinator of group billing"
        moved = await controlled.until(group="billing", state="Stable", members=1)
        assert moved.coordinator == to
        await consumer.commit({TopicPartition("orders", 0): 0})  # by which the client knows its new coordinator
        assert "has no member 'two'; its members: one-" in command("groups expire-member billing --member two")
        assert "group 'biling' has no members; did you mean billing?" in command("groups expire-member biling")
        said = command("groups expire-member billing --member one")
        assert said == f"the session of member {moved.members[0]} of group billing has ended"


async def test_a_transactions_coordinator_is_moved_and_its_time_ended(command: Run, controlled: Kafka) -> None:
    settings = controlled.client_config("aiokafka", "producer")
    async with AIOKafkaProducer(transactional_id="copier", **settings) as producer:
        assert command("txn move-coordinator copier").endswith("is the coordinator of copier")
        await producer.begin_transaction()
        await producer.send_and_wait("orders", b"half", partition=0)
        said = command("txn expire copier")
        assert said == "the time of the transaction of copier is over: its coordinator aborts it"
        assert "did you mean copier?" in command("txn expire copie")
        with pytest.raises(Exception, match=r"fenced|epoch|[Tt]ransaction"):
            await producer.commit_transaction()


def test_logs_are_compacted_and_retention_is_applied(command: Run, controlled: Kafka) -> None:
    controlled.topic("prices", cleanup_policy="compact")
    controlled.produce("prices", "1", key="tea")
    controlled.produce("prices", "2", key="tea")
    assert command("topics compact prices") == "prices is compacted"
    assert [each.value for each in controlled.records("prices")] == [b"2"]
    assert command("topics compact") == "all compacted topics are compacted"
    assert command("topics apply-retention") == "retention is applied"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("topics move-leader order", "there is no topic 'order'; did you mean orders?"),
        ("topics move-leader orders 7", "there is no partition orders-7"),
        ("topics move-leader orders --to 9", "orders-0 cannot be led by broker 9: the in-sync replicas that live are"),
        ("topics compact order", "there is no topic 'order'; did you mean orders?"),
        ("topics compact orders", "topic 'orders' is not compacted: its cleanup.policy is delete"),
        ("topics no-leader order", "there is no topic 'order'; did you mean orders?"),
    ],
)
def test_what_cannot_be_is_refused(command: Run, line: str, why: str) -> None:
    assert why in command(line)
