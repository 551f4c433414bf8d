"""Interfaces that `ReplicaManager` calls: an observer for metrics, and listeners for leaderships."""

from __future__ import annotations

from typing import Protocol

from purgatorio.broker.log.topic_partition import TopicPartition


class ReplicaObserver(Protocol):
    """Counts the events of replicas, for metrics; called on the hot path."""

    def appended(self, tp: TopicPartition, records: int, size_bytes: int) -> None:
        """A producer's batch was appended."""
        ...

    def append_failed(self, tp: TopicPartition) -> None:
        """A producer's batch was refused."""
        ...

    def fetched(self, tp: TopicPartition, size_bytes: int) -> None:
        """A consumer's fetch was answered, possibly without records."""
        ...

    def fetch_failed(self, tp: TopicPartition) -> None:
        """A consumer's fetch was answered with an error."""
        ...

    def replicated_in(self, size_bytes: int) -> None:
        """Records were fetched from a leader."""
        ...

    def replicated_out(self, size_bytes: int) -> None:
        """A follower's fetch was answered, possibly without records."""
        ...

    def produce_expired(self, tp: TopicPartition) -> None:
        """A produce request expired while it waited for this partition."""
        ...

    def fetch_expired(self, follower: bool) -> None:
        """A fetch request expired."""
        ...

    def isr_shrunk(self) -> None:
        """The ISR of a partition that this broker leads lost a replica."""
        ...

    def isr_expanded(self) -> None:
        """The ISR of a partition that this broker leads got a replica back."""
        ...

    def partition_removed(self, tp: TopicPartition) -> None:
        """This broker no longer leads the partition; its metrics are removed (KAFKA-20204)."""
        ...


class LeadershipListener(Protocol):
    """Notified when this broker gains or loses a leadership: a coordinator then loads or drops the partition's state.

    Called while an image is applied: a listener must neither block nor raise. It may append records.
    """

    def elected(self, tp: TopicPartition, leader_epoch: int) -> None:
        """This broker leads the partition from now on; called again if it is elected in a later leader epoch."""
        ...

    def resigned(self, tp: TopicPartition) -> None:
        """This broker no longer leads the partition; its replica may have been removed."""
        ...
