"""Operations on topics and partitions: list, create, elect, move and take away leaders, compact, retention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from purgatorio.admin.operations.declare import Answer, Int32, Limits, Operation, TopicName, arg

if TYPE_CHECKING:
    from purgatorio.admin.operations.operator import Operator

MAX_NEW_PARTITIONS: Final = 10_000
MAX_INT16: Final = 2**15 - 1
MAX_PLACEMENTS: Final = 1000
"""Partitions that one answer lists."""
TO: Final = "the broker; any other in-sync replica if it is not given"


class ListTopics(Operation, http="GET /topics", command="topics list"):
    """Leader, replicas, ISR and ELR of each partition, by name."""

    topic: str | None = arg("only this topic's", default=None)
    limit: Annotated[int, Limits(ge=0, le=MAX_PLACEMENTS)] = arg(
        f"how many, up to {MAX_PLACEMENTS}", default=MAX_PLACEMENTS
    )

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.reading.members import read_placements

        placements, count, offline = read_placements(operator.image, self.topic, self.limit)
        return {"partitions": placements, "partition_count": count, "offline_count": offline}


class ShowTopic(Operation, http="GET /topics/{topic}", answered_by="all brokers"):
    """A topic as the brokers know it: partitions, if any; whether all are led, and all replicas in sync."""

    topic: str = arg("the topic")

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.control.topic_control import read_topic

        return read_topic(operator.cluster, self.topic)


class FindLeader(Operation, http="GET /topics/{topic}/leader", answered_by="who knows"):
    """The leader of a partition, when it leads: an election is waited for."""

    topic: str = arg("the topic")
    partition: Int32 = arg("of that topic; 0 if it is not given", default=0)

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.control.topic_control import leader

        found = leader(operator.cluster, self.topic, self.partition)
        return {"topic": self.topic, "partition": self.partition, "leader": found.broker_id}


class CreateTopic(Operation, http="POST /topics", command="topics create"):
    """Create a topic; answers when all brokers know its leaders."""

    name: TopicName = arg("the topic's name", positional=True)
    partitions: Annotated[int, Limits(ge=1, le=MAX_NEW_PARTITIONS)] | None = arg(
        "how many; num.partitions if it is not given", default=None, metavar="N"
    )
    replicas: Annotated[int, Limits(ge=1, le=MAX_INT16)] | None = arg(
        "of each partition; default.replication.factor if it is not given", default=None, metavar="N"
    )
    configs: dict[str, str] | None = arg('its configs by Kafka\'s names: {"cleanup.policy": "compact"}', default=None)

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.control import topic_control

        cluster = operator.cluster
        partitions, replicas = (-1 if each is None else each for each in (self.partitions, self.replicas))
        await topic_control.create(cluster, self.name, partitions, replicas, self.configs or {}, operator.rng)
        return {"topic": self.name, "partition_count": topic_control.partition_count(cluster, self.name)}


class ElectLeaders(Operation, http="POST /topics/elect", command="topics elect"):
    """Elect preferred leaders, or unclean leaders for partitions that have none."""

    topic: TopicName | None = arg("all topics if it is not given", default=None)
    partition: Int32 | None = arg("of that topic; all its partitions if it is not given", default=None, metavar="N")
    unclean: bool = arg(
        "true: any live replica may lead where there is no leader; acknowledged records may be lost", default=False
    )

    def check(self) -> None:
        if self.partition is not None and self.topic is None:
            raise ValueError("give the topic of that partition")

    async def run(self, operator: Operator) -> Answer:
        """Elect them; a result for each partition that needed an election."""
        from purgatorio.admin.operations.reading.members import read_elected

        results = await operator.control.elect_leaders(self.topic, self.partition, unclean=self.unclean)
        return {"unclean": self.unclean, "partitions": [read_elected(result) for result in results]}


class MoveLeader(
    Operation,
    http="POST /topics/move-leader",
    command="topics move-leader",
    says="{topic}-{partition}: broker {leader} is the leader",
):
    """Have an in-sync replica lead a partition; answers when all brokers know."""

    topic: TopicName = arg("the topic", positional=True)
    partition: Int32 = arg("of that topic; 0 if it is not given", default=0, positional=True, metavar="N")
    to: Int32 | None = arg(TO, default=None, metavar="BROKER")

    async def run(self, operator: Operator) -> Answer:
        leader = await operator.cluster.leadership.move_leader(self.topic, self.partition, self.to)
        return {"topic": self.topic, "partition": self.partition, "leader": leader}


class NoLeader(
    Operation,
    http="POST /topics/no-leader",
    command="topics no-leader",
    says="{topic}-{partition} has no leader, until one is moved there or a broker comes or goes",
):
    """Take a partition's leader away, until it is moved or a broker comes or goes."""

    topic: TopicName = arg("the topic", positional=True)
    partition: Int32 = arg("of that topic; 0 if it is not given", default=0, positional=True, metavar="N")

    async def run(self, operator: Operator) -> Answer:
        await operator.cluster.leadership.no_leader(self.topic, self.partition)
        return {"topic": self.topic, "partition": self.partition, "leader": -1}


class Compact(Operation, http="POST /topics/compact", command="topics compact", answered_by="all brokers"):
    """Compact logs now, with their active segments, whatever their dirty ratio."""

    topic: TopicName | None = arg(
        "only this one; all that are compacted if it is not given", default=None, positional=True
    )

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.control.upkeep import compact

        await compact(operator.cluster, self.topic)
        return {"topic": self.topic, "state": "compacted"}


class ApplyRetention(
    Operation,
    http="POST /topics/apply-retention",
    command="topics apply-retention",
    says="retention is applied",
    answered_by="all brokers",
):
    """Delete now what is older than retention.ms or beyond retention.bytes."""

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.control.upkeep import apply_retention

        await apply_retention(operator.cluster)
        return {"state": "applied"}
