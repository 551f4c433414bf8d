"""What the group coordinator needs of the persister, which reaches the states of share partitions (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey


class StateSummary(Protocol):
    """The state of a share partition, without its records."""

    @property
    def leader_epoch(self) -> int:
        """The highest leader epoch that the state was read with; -1 if it was not read yet."""
        ...

    @property
    def start_offset(self) -> int:
        """The share-partition start offset; -1: the state is not initialized, or the leader is to choose it."""
        ...

    @property
    def delivery_complete_count(self) -> int:
        """The records from the start offset on that are acknowledged or archived; -1: unknown."""
        ...


class StatePersister(Protocol):
    """Begins, deletes and summarizes the states of share partitions, wherever their coordinators are.

    Each `done` is called exactly once, perhaps before the call returns, with NONE or the error that is left when all
    retries have failed.
    """

    def initialize(
        self, key: SharePartitionKey, *, state_epoch: int, start_offset: int, done: Callable[[ErrorCode], None]
    ) -> None:
        """Begin a new state, in place of one of an earlier epoch."""
        ...

    def delete(self, key: SharePartitionKey, *, done: Callable[[ErrorCode], None]) -> None:
        """Delete the state; one that does not exist is no error."""
        ...

    def summary(self, key: SharePartitionKey, *, done: Callable[[ErrorCode, Any], None]) -> None:
        """Read the state, as a `StateSummary`."""
        ...
