"""What the replicas tell the rest of the broker: what happens, for metrics, and which leaderships come and go."""

from __future__ import annotations

from typing import Protocol

from purgatorio.broker.log.topic_partition import TopicPartition


class ReplicaObserver(Protocol):
    """Told what the replicas do, for metrics; called on the hot path."""

    def appended(self, tp: TopicPartition, records: int, size_bytes: int) -> None:
        """A producer's batch was appended."""
        ...

    def append_failed(self, tp: TopicPartition) -> None:
        """A producer's batch was refused."""
        ...

    def fetched(self, tp: TopicPartition, size_bytes: int) -> None:
        """A consumer was answered, perhaps with no records."""
        ...

    def fetch_failed(self, tp: TopicPartition) -> None:
        """A consumer was answered with an error."""
        ...

    def replicated_in(self, size_bytes: int) -> None:
        """Records were fetched from a leader."""
        ...

    def replicated_out(self, size_bytes: int) -> None:
        """A follower was answered, perhaps with no records."""
        ...

    def produce_expired(self, tp: TopicPartition) -> None:
        """A produce request timed out waiting for this partition."""
        ...

    def fetch_expired(self, follower: bool) -> None:
        """A fetch request was answered because its time had run out."""
        ...

    def partition_removed(self, tp: TopicPartition) -> None:
        """This broker does not lead the partition any more (KAFKA-20204: its series go away)."""
        ...


class LeadershipListener(Protocol):
    """Told which partitions this broker leads: coordinators load the state of one that they gain, and drop the rest.

    It is called while the metadata are applied, so it must neither block nor raise; what it appends is appended.
    """

    def elected(self, tp: TopicPartition, leader_epoch: int) -> None:
        """This broker leads the partition from now on; told again when it is elected anew, in a later epoch."""
        ...

    def resigned(self, tp: TopicPartition) -> None:
        """This broker, which led the partition, does not any more; its replica may be gone altogether."""
        ...
