"""The delayed operations of share groups: states that are being initialized, and heartbeats that wait for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

from purgatorio.broker.causes.cause import NotInitialized
from purgatorio.broker.causes.words import MAX_NAMED, shortened
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey
from purgatorio.purgatory import DelayedOperation

HasEnded = Callable[[Mapping[SharePartitionKey, ErrorCode]], None]
"""Receives the share partitions that failed, with the error of each."""


@dataclass(frozen=True, slots=True)
class AssignmentKey:
    """The watch key of a share group's waits: checked when the states of some partitions are initialized."""

    group_id: str

    def __str__(self) -> str:
        return f"assignment of {shortened(self.group_id)}"


class DelayedInitialization(DelayedOperation):
    """Waits until share coordinators have answered for some partitions, or, after an error, for the next attempt.

    At the deadline the partitions are free to be asked for again.

    Args:
        delay_ms: the longest wait.
        state_epoch: the group's epoch, which the states begin with.
        starts: the start offset of each share partition; -1: the leader chooses it.
        names: the topics' names, by id.
        over: called at the deadline.
        error_code: why the last attempt failed; NONE while the share coordinators are asked.

    Attributes:
        unanswered: the share partitions for which there is no answer yet.
        failures: the share partitions that failed, with the error of each.
        has_ended: called once, by `end_with`.
    """

    __slots__ = (
        "_over",
        "error_code",
        "failures",
        "group_id",
        "has_ended",
        "names",
        "starts",
        "state_epoch",
        "unanswered",
    )

    def __init__(
        self,
        delay_ms: int,
        group_id: str,
        *,
        state_epoch: int,
        starts: Mapping[SharePartitionKey, int],
        names: Mapping[bytes, str],
        over: Callable[[DelayedInitialization], None],
        error_code: ErrorCode = ErrorCode.NONE,
    ) -> None:
        super().__init__(delay_ms)
        self.group_id = group_id
        self.state_epoch = state_epoch
        self.starts = starts
        self.names = names
        self.error_code = error_code
        self.unanswered: dict[SharePartitionKey, None] = dict.fromkeys(starts)
        self.failures: dict[SharePartitionKey, ErrorCode] = {}
        self.has_ended: HasEnded | None = None
        self._over = over

    @property
    def is_asking(self) -> bool:
        """Whether share coordinators are asked; else the next attempt is waited for."""
        return not self.error_code

    def end_with(self, failures: Mapping[SharePartitionKey, ErrorCode]) -> None:
        """Call `has_ended`, if it was not yet, with the partitions that have no new state."""
        has_ended, self.has_ended = self.has_ended, None
        if has_ended is not None:
            has_ended(failures)

    def try_complete(self) -> bool:
        """Wait on: the last answer completes it."""
        return False

    def on_complete(self) -> None:
        """Answer no request: heartbeats that wait are operations of their own."""

    def on_expiration(self) -> None:
        """Let the partitions be asked for again."""
        self._over(self)

    def causes(self) -> tuple[NotInitialized, ...]:
        """Return the partitions that have no state yet."""
        return (not_initialized(self.group_id, self),) if self.unanswered else ()


def not_initialized(group_id: str, *operations: DelayedInitialization) -> NotInitialized:
    """Return the partitions that some operations wait for, as a cause."""
    named = [
        TopicPartition(each.names[key.topic_id], key.partition)
        for each in operations
        for key in islice(each.unanswered, MAX_NAMED)
    ]
    count = sum(len(each.unanswered) for each in operations)
    error_code = next((each.error_code for each in operations if each.error_code), ErrorCode.NONE)
    shown = tuple(named[:MAX_NAMED])
    return NotInitialized(group_id, shown, count - len(shown), error_code.name if error_code else "")


class DelayedAssignment(DelayedOperation):
    """The heartbeat of a member that waits until the partitions that it subscribes to can be assigned.

    Kafka answers at once that the member has no partitions; it learns them at its next heartbeat, after 5 s by default.

    Args:
        delay_ms: the longest wait; then the answer is what there is.
        awaited: returns the operations that are waited for; with none, the wait is over.
        answer: answers the heartbeat.
        refuse: answers it with an error.
    """

    __slots__ = ("_answer", "_awaited", "_group_id", "_refuse")

    def __init__(
        self,
        delay_ms: int,
        group_id: str,
        *,
        awaited: Callable[[], list[DelayedInitialization]],
        answer: Callable[[], None],
        refuse: Callable[[ErrorCode], None],
    ) -> None:
        super().__init__(delay_ms)
        self._group_id = group_id
        self._awaited = awaited
        self._answer = answer
        self._refuse = refuse

    def try_complete(self) -> bool:
        """Complete if the states are initialized, or cannot be now."""
        return not self._awaited() and self.force_complete()

    def on_complete(self) -> None:
        """Answer the heartbeat."""
        self._answer()

    def on_error(self, error: Exception) -> None:
        """Answer with UNKNOWN_SERVER_ERROR."""
        self._refuse(ErrorCode.UNKNOWN_SERVER_ERROR)

    def on_shutdown(self) -> None:
        """Answer with NOT_COORDINATOR: the client looks for another broker."""
        self._refuse(ErrorCode.NOT_COORDINATOR)

    def causes(self) -> tuple[NotInitialized, ...]:
        """Return the partitions that have no state yet."""
        awaited = self._awaited()
        return (not_initialized(self._group_id, *awaited),) if awaited else ()
