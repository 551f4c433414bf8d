"""The five requests to share coordinators: a call of the persister, as an entry of a message and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from purgatorio.broker.metadata.image import NO_LEADER
from purgatorio.broker.share.persister import ReadDone, ShareState
from purgatorio.broker.share.state.outcome import Answer, Outcome
from purgatorio.late import dataclass
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.message import Message
from purgatorio.protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest, DeleteStateTopic
from purgatorio.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateTopic,
)
from purgatorio.protocol.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadStatePartition,
    ReadStatePartitionResult,
    ReadStateTopic,
)
from purgatorio.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryPartition,
    ReadStateSummaryPartitionResult,
    ReadStateSummaryTopic,
)
from purgatorio.protocol.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteStatePartition,
    WriteStateTopic,
)
from purgatorio.protocol.share_state import NO_START_OFFSET, SharePartitionKey

MAX_PARTITIONS: Final = 100
"""The most share partitions of one request: some milliseconds of a coordinator's time."""
MAX_READS: Final = 4
"""The most of a request to read, whose answer may have thousands of batches of each."""


@dataclass(frozen=True, slots=True)
class CallKind:
    """One of the five APIs.

    Attributes:
        verb: what the call does, for people.
        version: that of the requests.
        state: returns what an entry of the response tells, to a request with this entry.
        max_partitions: the most share partitions of one request.
    """

    api_key: ApiKey
    verb: str
    version: int
    request: Callable[..., Message]
    topic: Callable[..., Any]
    state: Callable[[Any, Any], ShareState | None] = lambda asked, result: None
    max_partitions: int = MAX_PARTITIONS


def _read(asked: ReadStatePartition, result: ReadStatePartitionResult) -> ShareState:
    return ShareState(result.state_epoch, asked.leader_epoch, result.start_offset, batches=tuple(result.state_batches))


def _summary(asked: ReadStateSummaryPartition, result: ReadStateSummaryPartitionResult) -> ShareState:
    return ShareState(result.state_epoch, result.leader_epoch, result.start_offset, result.delivery_complete_count)


INITIALIZE: Final = CallKind(
    ApiKey.INITIALIZE_SHARE_GROUP_STATE, "initialize", 0, InitializeShareGroupStateRequest, InitializeStateTopic
)
READ: Final = CallKind(
    ApiKey.READ_SHARE_GROUP_STATE, "read", 0, ReadShareGroupStateRequest, ReadStateTopic, _read, MAX_READS
)
WRITE: Final = CallKind(ApiKey.WRITE_SHARE_GROUP_STATE, "write", 1, WriteShareGroupStateRequest, WriteStateTopic)
DELETE: Final = CallKind(ApiKey.DELETE_SHARE_GROUP_STATE, "delete", 0, DeleteShareGroupStateRequest, DeleteStateTopic)
SUMMARY: Final = CallKind(
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    "sum up",
    1,
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryTopic,
    _summary,
)


class Call:
    """A call of the persister, until it is done.

    Args:
        entry: its partition in a request.
        here: asks the coordinator of this broker.
        weight: how many elements the entry takes of what a request may have.

    Attributes:
        asked: the broker that was asked last, or NO_LEADER if there was none to ask.
        why: what came of that.
        quick_retries: those that were made after a moment, since the coordinator moved.
        retries: the others.
    """

    __slots__ = ("asked", "done", "entry", "here", "key", "kind", "quick_retries", "retries", "weight", "why")

    def __init__(
        self,
        kind: CallKind,
        key: SharePartitionKey,
        entry: Any,
        here: Callable[[Answer], None],
        done: ReadDone,
        *,
        weight: int = 1,
    ) -> None:
        self.kind = kind
        self.key = key
        self.entry = entry
        self.here = here
        self.done: ReadDone | None = done
        self.weight = weight
        self.asked = NO_LEADER
        self.why = ""
        self.quick_retries = 0
        self.retries = 0


def is_joined_by(call: Call, other: Call) -> bool:
    """Return whether two calls about one share partition can be one entry of a request: two writes of one leader."""
    if call.kind is not WRITE or other.kind is not WRITE:
        return False
    mine, theirs = call.entry, other.entry
    return (mine.state_epoch, mine.leader_epoch) == (theirs.state_epoch, theirs.leader_epoch)


def entry_of(calls: Sequence[Call]) -> Any:
    """Return the entry of a request for calls that are joined: the later ones tell what is newer."""
    first = calls[0].entry
    if len(calls) == 1:
        return first
    start_offset, complete_count = first.start_offset, first.delivery_complete_count
    for call in calls[1:]:
        if call.entry.start_offset > start_offset:
            start_offset, complete_count = call.entry.start_offset, call.entry.delivery_complete_count
        elif call.entry.start_offset in (NO_START_OFFSET, start_offset):
            complete_count = call.entry.delivery_complete_count
    return WriteStatePartition(
        partition=first.partition,
        state_epoch=first.state_epoch,
        leader_epoch=first.leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=complete_count,
        state_batches=[batch for call in calls for batch in call.entry.state_batches],
    )


class Place(NamedTuple):
    """What an entry of a response is about."""

    topic_id: bytes
    partition: int


def request_of(kind: CallKind, group_id: str, calls: Mapping[Place, Sequence[Call]]) -> Message:
    """Return the request with these calls, which are of one kind and about one group."""
    topics: dict[bytes, list[Any]] = {}
    for place, joined in calls.items():
        topics.setdefault(place.topic_id, []).append(entry_of(joined))
    return kind.request(
        group_id=group_id,
        topics=[kind.topic(topic_id=topic_id, partitions=entries) for topic_id, entries in topics.items()],
    )


def results_of(response: Any) -> Iterator[tuple[Place, Any]]:
    """Yield the entries of a response; None: there is none."""
    for topic in () if response is None else response.results:
        for partition in topic.partitions:
            yield Place(topic.topic_id, partition.partition), partition


def outcome_of(call: Call, result: Any) -> Outcome:
    """Return what an entry of a response tells of a call."""
    error_code = ErrorCode.known(result.error_code)
    if error_code:
        return Outcome(error_code, result.error_message)
    return Outcome(state=call.kind.state(call.entry, result))
