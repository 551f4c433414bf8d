"""Members of consumer groups that behave as clients do, at broker 1; the test decides when they send heartbeats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup
from purgatorio.broker.group.modern.modern_groups import HeartbeatClient
from purgatorio.broker.group.modern.partitions import NO_PARTITIONS, Partitions, each, from_wire, to_wire
from purgatorio.broker.metadata.topic_name import OFFSETS_TOPIC
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.broker.group.harness import GroupHarness, offsets_topic
from tests.broker.replica.harness import topic
from tests.broker.time.by_hand import turns_of


class ConsumerHarness(GroupHarness):
    """Broker 1 with consumer groups, and the topics orders of six partitions and bills of two."""

    def __init__(self, replicas: tuple[int, ...] = (1,), **config: int) -> None:
        super().__init__(replicas, **config)
        self.replicas_of_offsets = replicas
        self.left: list[Iterator[None]] = []
        self.takes_steps = True
        self.create(orders=6, bills=2)

    def create(self, **partitions: int) -> None:
        """Let exactly these topics exist, with these numbers of partitions."""
        made = [
            topic(name, partitions=count, replicas=(1,), topic_id=name.encode()[:16].ljust(16, b"\0"))
            for name, count in partitions.items()
        ]
        self.set_topics(offsets_topic(self.replicas_of_offsets), *made)
        self.groups.image_changed(self.image)

    def match(self) -> int:
        """Match topics with the regular expressions that wait for it; returns the number of steps."""
        return turns_of(self.groups.consumer.expressions.steps())

    def elect_again(self) -> None:
        """Let broker 1 be elected anew: it loads the groups from its log."""
        state = self.image.topics[OFFSETS_TOPIC].partitions[0]
        others = [each for name, each in self.image.topics.items() if name != OFFSETS_TOPIC]
        self.set_topics(offsets_topic(state.replicas, 1, state.leader_epoch + 1), *others)
        self.work()

    def group(self, group_id: str = "app") -> ConsumerGroup:
        found = self.groups.coordinator.shard_of(group_id).groups[group_id]
        assert isinstance(found, ConsumerGroup)
        return found

    def heartbeat(self, **fields: Any) -> list[ConsumerGroupHeartbeatResponse]:
        """Send a heartbeat; the answer may come later."""
        answers: list[ConsumerGroupHeartbeatResponse] = []
        version = fields.pop("version", 1)
        request = ConsumerGroupHeartbeatRequest(**{"group_id": "app", **fields})
        client = HeartbeatClient("app", "/127.0.0.1", version, answers.append, self.left.append)
        self.groups.consumer.heartbeat(request, client)
        if self.takes_steps:
            self.take_steps()
        return answers

    def take_steps(self) -> None:
        """Take the steps that heartbeats have left."""
        while self.left:
            for _ in self.left.pop(0):
                pass

    def ask(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat, and return the answer."""
        (answer,) = self.heartbeat(**fields)
        return answer

    def refusal(self, **fields: Any) -> ErrorCode:
        """Send a heartbeat that is refused, and return the error code."""
        with pytest.raises(CoordinatorError) as refused:
            self.heartbeat(**fields)
        return refused.value.error_code

    def settle(self, *consumers: Consumer, rounds: int = 20) -> None:
        """Let these members send heartbeats until nothing changes any more."""
        for _ in range(rounds):
            if not any([consumer.beat() for consumer in consumers]):
                return
        raise AssertionError("the members do not settle")


class Consumer:
    """A member with its own view: it owns what the coordinator's answers let it own.

    Args:
        broker: the coordinator.
        member_id: the id that the client makes.
        topics: what it subscribes to.
        fields: further fields of its first heartbeat.
    """

    def __init__(
        self, broker: ConsumerHarness, member_id: str, topics: Iterable[str] = ("orders",), **fields: Any
    ) -> None:
        self.broker = broker
        self.member_id = member_id
        self.subscription = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": list(topics), **fields}
        self.epoch = 0
        self.owned: Partitions = NO_PARTITIONS
        self.interval_ms = 0
        self.told_owned: Partitions | None = None

    @property
    def instance(self) -> dict[str, Any]:
        return {key: value for key, value in self.subscription.items() if key == "instance_id"}

    @property
    def partitions(self) -> list[str]:
        """What it owns, as "orders-3"."""
        return [f"{topic_id.rstrip(bytes(1)).decode()}-{number}" for topic_id, number in each(self.owned)]

    def request(self) -> dict[str, Any]:
        """The fields of its next heartbeat: all of them to join, then what has changed."""
        fields: dict[str, Any] = {"member_id": self.member_id, "member_epoch": self.epoch, **self.instance}
        if self.epoch == 0:
            return {**fields, **self.subscription, "topic_partitions": []}
        if self.told_owned != self.owned:
            fields["topic_partitions"] = to_wire(self.owned, TopicPartitions)
        return fields

    def beat(self, *, is_answered: bool = True) -> bool:
        """Send a heartbeat; returns whether the member has changed, or has something new to tell."""
        try:
            (answer,) = self.broker.heartbeat(**self.request())
        except CoordinatorError as error:
            if error.error_code not in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                raise
            self.epoch, self.owned, self.told_owned = 0, NO_PARTITIONS, None
            return True
        if not is_answered:
            self.told_owned = None  # as clients do: they tell everything again
            return True
        return self.hear(answer)

    def hear(self, answer: ConsumerGroupHeartbeatResponse) -> bool:
        """Do as the answer says; partitions that are missing in it are given up at once."""
        assert answer.error_code == ErrorCode.NONE
        before = self.epoch, self.owned, self.told_owned
        self.told_owned = self.owned
        self.epoch, self.interval_ms = answer.member_epoch, answer.heartbeat_interval_ms
        if answer.assignment is not None:
            self.owned = from_wire(answer.assignment.topic_partitions)
        return (self.epoch, self.owned, self.told_owned) != before

    def leave(self, epoch: int = -1) -> None:
        """Leave the group for good, or (-2) for a while."""
        self.broker.ask(member_id=self.member_id, member_epoch=epoch, **self.instance)
        self.epoch, self.owned, self.told_owned = 0, NO_PARTITIONS, None


def is_consistent(group: ConsumerGroup) -> bool:
    """Whether no partition is held by two members."""
    held = [partition for member in group.members.values() for partition in each(member.current.held)]
    return len(held) == len(set(held))
