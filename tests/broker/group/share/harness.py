"""Members of share groups that behave as clients do, at broker 1; the test decides when they send heartbeats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from purgatorio.broker.causes.words import in_words
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.modern.modern_groups import HeartbeatClient
from purgatorio.broker.group.modern.partitions import NO_PARTITIONS, Partitions, each, from_wire
from purgatorio.broker.group.share.share_group import ShareGroup
from purgatorio.broker.metadata.topic_name import OFFSETS_TOPIC
from purgatorio.protocol.consumer_offsets import Key, Value, decode_key, decode_value
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from purgatorio.protocol.records import iter_batches, iter_records
from tests.broker.group.harness import PARTITION, GroupHarness, offsets_topic
from tests.broker.replica.harness import topic
from tests.broker.time.by_hand import turns_of


def topic_id(name: str) -> bytes:
    return name.encode()[:16].ljust(16, b"\0")


def names(partitions: Partitions) -> list[str]:
    """Partitions as "orders-3"."""
    return [f"{each_id.rstrip(bytes(1)).decode()}-{number}" for each_id, number in each(partitions)]


class ShareHarness(GroupHarness):
    """Broker 1 with share groups, and the topics orders of three partitions and bills of two."""

    def __init__(self, replicas: tuple[int, ...] = (1,), **config: int) -> None:
        super().__init__(replicas, **config)
        self.replicas_of_offsets = replicas
        self.left: list[Iterator[None]] = []
        self.create(orders=3, bills=2)

    def create(self, **partitions: int) -> None:
        """Let exactly these topics exist, with these numbers of partitions."""
        made = [
            topic(name, partitions=count, replicas=(1,), topic_id=topic_id(name)) for name, count in partitions.items()
        ]
        state = self.image.topics[OFFSETS_TOPIC].partitions[0]
        self.set_topics(offsets_topic(self.replicas_of_offsets, 1, state.leader_epoch), *made)
        self.groups.image_changed(self.image)

    def written(self, offset: int = 0) -> list[tuple[Key, Value | None]]:
        """The records of ``__consumer_offsets`` from this offset on."""
        log = self.partition(PARTITION).log
        data = b"".join(log.read(offset, max_bytes=10_000_000, end_offset=log.log_end_offset).parts)
        found = []
        for _, batch in iter_batches(data):
            for record in iter_records(batch):
                key = decode_key(record.key or b"")
                assert key is not None
                found.append((key, decode_value(key, record.value)))
        return found

    def forget(self) -> int:
        """Delete the states of deleted topics; returns the number of groups that were looked at."""
        return turns_of(self.groups.share.steps())

    def configure(self, group_id: str = "app", **configs: str) -> None:
        """Set configs of a group, by their names with underscores."""
        given = {name.replace("_", "."): value for name, value in configs.items()}
        self.image = self.image.with_group_configs(group_id, given)

    def elect_again(self) -> None:
        """Let broker 1 be elected anew: it loads the groups from its log."""
        state = self.image.topics[OFFSETS_TOPIC].partitions[0]
        others = [each_topic for name, each_topic in self.image.topics.items() if name != OFFSETS_TOPIC]
        self.set_topics(offsets_topic(state.replicas, 1, state.leader_epoch + 1), *others)
        self.work()

    def group(self, group_id: str = "app") -> ShareGroup:
        found = self.groups.coordinator.shard_of(group_id).groups[group_id]
        assert isinstance(found, ShareGroup)
        return found

    def heartbeat(self, **fields: Any) -> list[ShareGroupHeartbeatResponse]:
        """Send a heartbeat; the answer may come later."""
        answers: list[ShareGroupHeartbeatResponse] = []
        request = ShareGroupHeartbeatRequest(**{"group_id": "app", **fields})
        client = HeartbeatClient("shop", "/127.0.0.1", 1, answers.append, self.left.append)
        self.groups.share.heartbeat(request, client)
        return answers

    def take_steps(self) -> int:
        """Take the steps that heartbeats have left, then those of initializations; returns the number of the first."""
        count = sum(turns_of(self.left.pop(0)) for _ in list(self.left))
        for _ in self.group_work.turns():
            pass
        return count

    def ask(self, **fields: Any) -> ShareGroupHeartbeatResponse:
        """Send a heartbeat, and return the answer."""
        (answer,) = self.heartbeat(**fields)
        return answer

    def join(self, member_id: str = "a", *topics: str, group_id: str = "app") -> ShareGroupHeartbeatResponse:
        """Let a member join, and return the answer."""
        return self.ask(
            group_id=group_id, member_id=member_id, member_epoch=0, subscribed_topic_names=list(topics or ("orders",))
        )

    def refusal(self, **fields: Any) -> ErrorCode:
        """Send a heartbeat that is refused, and return the error code."""
        with pytest.raises(CoordinatorError) as refused:
            self.heartbeat(**fields)
        return refused.value.error_code

    @property
    def parked(self) -> list[str]:
        """What the operations in the purgatory of share groups wait for."""
        return [in_words(operation.causes) for operation in self.share_purgatory.operations()]


def assigned(answer: ShareGroupHeartbeatResponse) -> list[str] | None:
    """The partitions of an answer, as "orders-3"; None if it tells none."""
    return None if answer.assignment is None else names(from_wire(answer.assignment.topic_partitions))


class Member:
    """A member with its own view, which does as the answers say.

    Args:
        broker: the coordinator.
        topics: what it subscribes to.
    """

    def __init__(self, broker: ShareHarness, member_id: str, topics: Iterable[str] = ("orders",)) -> None:
        self.broker = broker
        self.member_id = member_id
        self.topics = list(topics)
        self.epoch = 0
        self.owned: Partitions = NO_PARTITIONS
        self.interval_ms = 0

    @property
    def partitions(self) -> list[str]:
        return names(self.owned)

    def beat(self) -> bool:
        """Send a heartbeat; returns whether the member has changed."""
        fields: dict[str, Any] = {"member_id": self.member_id, "member_epoch": self.epoch}
        if self.epoch == 0:
            fields["subscribed_topic_names"] = self.topics
        try:
            (answer,) = self.broker.heartbeat(**fields)
        except CoordinatorError as error:
            if error.error_code not in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                raise
            self.epoch, self.owned = 0, NO_PARTITIONS
            return True
        assert answer.error_code == ErrorCode.NONE
        before = self.epoch, self.owned
        self.epoch, self.interval_ms = answer.member_epoch, answer.heartbeat_interval_ms
        if answer.assignment is not None:
            self.owned = from_wire(answer.assignment.topic_partitions)
        return (self.epoch, self.owned) != before

    def leave(self) -> None:
        self.broker.ask(member_id=self.member_id, member_epoch=-1)
        self.epoch, self.owned = 0, NO_PARTITIONS


def settle(*members: Member, rounds: int = 20) -> None:
    """Let members send heartbeats until nothing changes any more."""
    for _ in range(rounds):
        if not any([member.beat() for member in members]):
            return
    raise AssertionError("the members do not settle")
