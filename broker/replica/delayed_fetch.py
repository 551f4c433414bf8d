"""The delayed operation of Fetch: waits until `min_bytes` can be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.purgatory import DelayedOperation
from purgatorio.broker.replica.reader import FetchParams, PartitionFetch, ReplicaReader
from purgatorio.protocol.messages.fetch import PartitionData


@dataclass(frozen=True, slots=True)
class FollowerKey:
    """The watch key of a follower's fetches: checked when the set of partitions that the follower should fetch changes.

    Without it a follower would fetch a new partition only after its pending fetch expires, up to
    replica.fetch.wait.max.ms late.
    """

    broker_id: int

    def __str__(self) -> str:
        return f"follower {self.broker_id}"


class DelayedFetch(DelayedOperation):
    """Waits until `min_bytes` can be read from the partitions together, or one of them must be answered at once.

    It reads the logs again when it completes, but does not record a follower's progress a second time (KAFKA-9939):
    the replica manager did so when the request arrived.

    Args:
        params: the parameters of the request as a whole.
        fetches: the partitions of the request; each could be read when the request arrived.
        reader: reads partitions, and decides which must be answered at once.
        answer: sends the response; called once.
        expired: called when the fetch expires, with True for a follower's fetch.
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
        """Return the partitions, and for a follower its `FollowerKey`."""
        keys: list[TopicPartition | FollowerKey] = [fetch.tp for fetch in self._fetches]
        if self._params.is_follower:
            keys.append(FollowerKey(self._params.replica_id))
        return keys

    def try_complete(self) -> bool:
        """Complete if `min_bytes` can be read, or if a partition must be answered at once (`available_bytes`)."""
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
        """Describe the bytes that can be read, the bytes that are wanted, and each fetch offset."""
        available_bytes = sum(self._reader.available_bytes(self._params, f) or 0 for f in self._fetches)
        reader = f"follower {self._params.replica_id}" if self._params.is_follower else "consumer"
        places = ", ".join(f"{f.tp} from {f.request.fetch_offset}" for f in self._fetches[:5])
        more = f" and {len(self._fetches) - 5} more" if len(self._fetches) > 5 else ""
        return f"{reader} has {available_bytes} of {self._params.min_bytes} bytes: {places}{more}"

    def on_complete(self) -> None:
        """Read again and answer."""
        self._answer(self._reader.read_all(self._params, self._fetches).partitions)

    def on_expiration(self) -> None:
        """Count the expiry as a follower's or a consumer's."""
        self._expired(self._params.is_follower)

    def on_error(self, error: Exception) -> None:
        """Answer every partition with UNKNOWN_SERVER_ERROR."""
        self._answer([self._reader.failed(fetch) for fetch in self._fetches])
