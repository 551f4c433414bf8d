"""A fetch request that waits until there is enough to answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.purgatory import DelayedOperation
from purgatorio.broker.replica.reader import FetchParams, PartitionFetch, ReplicaReader
from purgatorio.protocol.messages.fetch import PartitionData


@dataclass(frozen=True, slots=True)
class FollowerKey:
    """Watched by a follower's fetches: checked when the set of partitions that the follower should fetch changes.

    Without it a follower would learn of a new partition's records only after its long poll, up to
    replica.fetch.wait.max.ms late.
    """

    broker_id: int

    def __str__(self) -> str:
        return f"follower {self.broker_id}"


class DelayedFetch(DelayedOperation):
    """Waits until the partitions hold `min_bytes` between them, or one of them has something else to say.

    It reads the logs again when it completes, but never takes note of a follower's progress a second time
    (KAFKA-9939): that was done when the request came.

    Args:
        params: what the request asks for as a whole.
        fetches: its partitions; each could be read when the request came.
        reader: reads partitions, and knows what makes one answerable.
        answer: sends the response; called once.
        expired: told whether a follower's fetch ran out of time.
    """

    __slots__ = ("_answer", "_assignment", "_expired", "_fetches", "_params", "_reader")

    def __init__(
        self,
        params: FetchParams,
        fetches: list[PartitionFetch],
        reader: ReplicaReader,
        answer: Callable[[list[PartitionData]], None],
        expired: Callable[[bool], None],
    ) -> None:
        super().__init__(params.max_wait_ms)
        self.client = params.client
        self._params = params
        self._fetches = fetches
        self._reader = reader
        self._answer = answer
        self._expired = expired
        self._assignment = reader.assignment_of(params.replica_id)

    def watch_keys(self) -> list[TopicPartition | FollowerKey]:
        """Each partition, and for a follower its assignment."""
        keys: list[TopicPartition | FollowerKey] = [fetch.tp for fetch in self._fetches]
        if self._params.is_follower:
            keys.append(FollowerKey(self._params.replica_id))
        return keys

    def try_complete(self) -> bool:
        """Complete if there is enough, or if a partition can only be answered with an error or a truncation."""
        reader, params = self._reader, self._params
        if reader.assignment_of(params.replica_id) is not self._assignment:
            return self.force_complete()
        available_bytes = 0
        for fetch in self._fetches:
            size_bytes = reader.available_bytes(params, fetch)
            if size_bytes is None:
                return self.force_complete()
            available_bytes += size_bytes
        return available_bytes >= params.min_bytes and self.force_complete()

    def missing(self) -> str:
        """How much there is of how much is wanted, and where each partition would go on."""
        available_bytes = sum(self._reader.available_bytes(self._params, f) or 0 for f in self._fetches)
        who = f"follower {self._params.replica_id}" if self._params.is_follower else "consumer"
        places = ", ".join(f"{f.tp} from {f.request.fetch_offset}" for f in self._fetches[:5])
        more = f" and {len(self._fetches) - 5} more" if len(self._fetches) > 5 else ""
        return f"{who} has {available_bytes} of {self._params.min_bytes} bytes: {places}{more}"

    def on_complete(self) -> None:
        """Read again and answer what there is."""
        self._answer(self._reader.read_all(self._params, self._fetches).partitions)

    def on_expiration(self) -> None:
        """Count the expiry by who asked."""
        self._expired(self._params.is_follower)

    def on_error(self, error: Exception) -> None:
        """Answer every partition with the broker's failure."""
        self._answer([self._reader.failed(fetch) for fetch in self._fetches])
