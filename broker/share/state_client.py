"""Reaches the states of share partitions, which share coordinators keep, for the leaders and group coordinator here.

The coordinator of this broker is called, others are asked. Calls about one group share a request. A share partition is
in a request once, as an answer names it only so; writes about it that follow each other are one entry. After an error
that passes a call waits in the purgatory "Persister": twice for a moment, as another broker's image may be late or its
coordinator may load; then for longer and longer, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from purgatorio.broker.causes.cause import ShareCoordinatorFailed
from purgatorio.broker.causes.kinds import PERSISTER
from purgatorio.broker.coordinator.broker_calls import Answer, BrokerCalls, Call, CallKind, Pause, Retries
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage
from purgatorio.broker.metadata.topic_name import SHARE_GROUP_STATE_TOPIC
from purgatorio.broker.routing.passing_errors import SHARE_STATES
from purgatorio.broker.share.persister import Done, ReadDone, ShareState
from purgatorio.broker.share.state.coordinator import ShareCoordinator, StateOutcome, exists
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.message import Message
from purgatorio.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteStatePartition,
    DeleteStateTopic,
)
from purgatorio.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStatePartition,
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
from purgatorio.protocol.share_state import NO_START_OFFSET, SharePartitionKey, StateBatch

MAX_PARTITIONS: Final = 100
"""The most share partitions of one request: some milliseconds of a coordinator's time."""
MAX_READS: Final = 4
"""The most of a request to read, whose answer may have thousands of batches of each."""
MAX_WEIGHT: Final = 10_000
"""The most elements of a request, unless one call has more."""
MAX_JOINED: Final = 1_000
"""The most elements of writes that are joined; see `purgatorio.broker.share.state.batches.MAX_OVERLAPPING`."""
QUICK_RETRIES_MS: Final = (20, 100)
"""The first waits after a coordinator has moved, which do not count."""


class StateApi(NamedTuple):
    """One of the five APIs.

    Attributes:
        verb: the action of a call, for people.
        version: that of the requests.
        state: returns the state in an entry of the response, to a request with this entry.
        max_partitions: the most share partitions of one request.
    """

    key: ApiKey
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


INITIALIZE: Final = StateApi(
    ApiKey.INITIALIZE_SHARE_GROUP_STATE, "initialize", 0, InitializeShareGroupStateRequest, InitializeStateTopic
)
READ: Final = StateApi(
    ApiKey.READ_SHARE_GROUP_STATE, "read", 0, ReadShareGroupStateRequest, ReadStateTopic, _read, MAX_READS
)
WRITE: Final = StateApi(ApiKey.WRITE_SHARE_GROUP_STATE, "write", 1, WriteShareGroupStateRequest, WriteStateTopic)
DELETE: Final = StateApi(ApiKey.DELETE_SHARE_GROUP_STATE, "delete", 0, DeleteShareGroupStateRequest, DeleteStateTopic)
SUMMARY: Final = StateApi(
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    "sum up",
    1,
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryTopic,
    _summary,
)


class StateCall(Call):
    """A call about one share partition.

    Args:
        entry: its partition in a request.
        coordinate: asks the coordinator of this broker.
        weight: how many elements the entry takes of what a request may have.
    """

    __slots__ = ("coordinate", "done", "entry", "key")

    def __init__(
        self,
        kind: StateCalls,
        key: SharePartitionKey,
        entry: Any,
        coordinate: Callable[..., None],
        done: ReadDone,
        *,
        weight: int = 1,
    ) -> None:
        place = TopicPartition(SHARE_GROUP_STATE_TOPIC, 0)
        super().__init__(kind, place, (key.topic_id, key.partition), lane=key.group_id, weight=weight)
        self.key = key
        self.entry = entry
        self.coordinate = coordinate
        self.done = done


class StateCalls(CallKind[StateCall]):
    """The calls of one API."""

    row = PERSISTER
    passing = SHARE_STATES
    max_weight = MAX_WEIGHT
    is_bounded = True
    refusal = Answer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    event = "share coordinator"

    def __init__(self, client: StateClient, api: StateApi, retries: Retries) -> None:
        self.api = api
        self.api_key = api.key
        self.version = api.version
        self.max_ids = api.max_partitions
        self.retries = retries
        self._client = client

    def place(self, call: StateCall) -> TopicPartition:
        """Return the partition of ``__share_group_state`` that holds a share partition."""
        return self._client.place(call.key)

    def without_leader(self, call: StateCall, *, exists: bool) -> Answer:
        """Have the topic created."""
        if not exists:
            self._client.create()
        return self.refusal

    def asks_itself(self) -> bool:
        """Return whether fault rules are about this API."""
        return self._client.asks_itself(self.api_key)

    def here(self, calls: list[StateCall], answered: Callable[[StateCall, Answer], None]) -> None:
        """Ask the coordinator of this broker."""
        (call,) = calls

        def done(result: StateOutcome) -> None:
            answered(call, Answer(result.error_code, value=result.state))

        call.coordinate(done=done)

    def joins(self, first: StateCall, call: StateCall, weight: int) -> bool:
        """Two writes of one leader can be one entry."""
        mine, theirs = first.entry, call.entry
        return (
            self.api is WRITE
            and weight <= MAX_JOINED
            and (mine.state_epoch, mine.leader_epoch) == (theirs.state_epoch, theirs.leader_epoch)
        )

    def request(self, calls: Mapping[tuple[bytes, int], list[StateCall]]) -> Message:
        """Return the request with these calls, which are about one group."""
        topics: dict[bytes, list[Any]] = {}
        for (topic_id, _), joined in calls.items():
            topics.setdefault(topic_id, []).append(_entry_of(joined))
        ((first, *_), *_) = calls.values()
        return self.api.request(
            group_id=first.key.group_id,
            topics=[self.api.topic(topic_id=topic_id, partitions=entries) for topic_id, entries in topics.items()],
        )

    def answers(
        self, response: Any, calls: Mapping[tuple[bytes, int], list[StateCall]]
    ) -> dict[tuple[bytes, int], Answer]:
        """Return the entries of a response."""
        found: dict[tuple[bytes, int], Answer] = {}
        for topic in response.results:
            for result in topic.partitions:
                place = topic.topic_id, result.partition
                code = ErrorCode.known(result.error_code)
                asked = calls.get(place)
                found[place] = Answer(
                    code, value=None if code or asked is None else self.api.state(asked[0].entry, result)
                )
        return found

    def passes(self, call: StateCall, answer: Answer) -> bool:
        """A partition that this broker's image lacks, too, is not asked for again."""
        if answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return exists(self._client.image(), call.key)
        return super().passes(call, answer)

    def keys(self, call: StateCall) -> tuple[SharePartitionKey, TopicPartition]:
        """Return the share partition, and that of its state."""
        return call.key, call.tp

    def cause(self, pause: Pause, waited_ms: int) -> ShareCoordinatorFailed:
        """Return what the coordinator answered."""
        call: StateCall = next(iter(pause.calls))
        topic = self._client.image().topic_by_id(call.key.topic_id)
        name = str(call.key).split(":")[-2] if topic is None else topic.name
        asked = None if call.asked == NO_LEADER else call.asked
        left = (self.retries.times or 0) - call.retries
        tp = TopicPartition(name, call.key.partition)
        return ShareCoordinatorFailed(tp, call.key.group_id, self.api.verb, asked, call.why, left)

    def ended(self, call: StateCall, answer: Answer) -> None:
        """Pass the answer on; a broker that cannot be reached is as one without a coordinator."""
        code = answer.error_code
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE if code == ErrorCode.NETWORK_EXCEPTION else code
        if self.api is WRITE:
            self._client.written(call.key)
        call.done(code, answer.value)


class StateClient:
    """Asks share coordinators for one broker; implements `Persister`.

    Args:
        image: returns this broker's image.
        create_topic: creates ``__share_group_state``; calls its argument once when it has, or has failed.
        partitions: of that topic, if it does not exist yet.
        retries: when calls are made again.

    Attributes:
        asks_itself: returns whether this broker's own coordinator is asked by a request, too: fault rules are about it.
    """

    def __init__(
        self,
        calls: BrokerCalls,
        coordinator: ShareCoordinator,
        *,
        image: Callable[[], ClusterImage],
        create_topic: Callable[[Callable[[], None]], None],
        partitions: int,
        retries: Retries,
    ) -> None:
        self._calls = calls
        self._coordinator = coordinator
        self._create_topic = create_topic
        self._partitions = partitions
        self._kinds = {api: StateCalls(self, api, retries) for api in (INITIALIZE, READ, WRITE, DELETE, SUMMARY)}
        self._writing: dict[SharePartitionKey, int] = {}  # how many writes are under way
        # A dropped share partition may still be writing when its successor, which has the same epochs, reads.
        self._reading: dict[SharePartitionKey, list[StateCall]] = {}
        self._is_creating = False
        self.image = image
        self.asks_itself: Callable[[ApiKey], bool] = lambda key: False

    # --- calls ---

    def initialize(self, key: SharePartitionKey, *, state_epoch: int, start_offset: int, done: Done) -> None:
        """Begin a new state; see `Persister`."""
        entry = InitializeStatePartition(partition=key.partition, state_epoch=state_epoch, start_offset=start_offset)
        here = partial(self._coordinator.initialize, key, state_epoch=state_epoch, start_offset=start_offset)
        self._calls.make([StateCall(self._kinds[INITIALIZE], key, entry, here, _without_state(done))])

    def read(self, key: SharePartitionKey, *, leader_epoch: int, done: ReadDone) -> None:
        """Read the state, and fence older leaders."""
        entry = ReadStatePartition(partition=key.partition, leader_epoch=leader_epoch)
        here = partial(self._coordinator.read, key, leader_epoch=leader_epoch)
        call = StateCall(self._kinds[READ], key, entry, here, done)
        if key in self._writing:
            self._reading.setdefault(key, []).append(call)
        else:
            self._calls.make([call])

    def write(
        self,
        key: SharePartitionKey,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
        done: Done,
    ) -> None:
        """Change the state; the batches are sent as they are now."""
        entry = WriteStatePartition(
            partition=key.partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            state_batches=list(batches),
        )
        here = partial(
            self._coordinator.write,
            key,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            batches=entry.state_batches,
        )
        self._writing[key] = self._writing.get(key, 0) + 1
        weight = 1 + len(entry.state_batches)
        self._calls.make([StateCall(self._kinds[WRITE], key, entry, here, _without_state(done), weight=weight)])

    def delete(self, key: SharePartitionKey, *, done: Done) -> None:
        """Delete the state."""
        here = partial(self._coordinator.delete, key)
        entry = DeleteStatePartition(partition=key.partition)
        self._calls.make([StateCall(self._kinds[DELETE], key, entry, here, _without_state(done))])

    def summary(self, key: SharePartitionKey, *, leader_epoch: int = -1, done: ReadDone) -> None:
        """Read how far the state has come."""
        here = partial(self._coordinator.summary, key)
        entry = ReadStateSummaryPartition(partition=key.partition, leader_epoch=leader_epoch)
        self._calls.make([StateCall(self._kinds[SUMMARY], key, entry, here, done)])

    @property
    def under_way(self) -> int:
        """The calls that are not done."""
        return sum(each.call_count for each in self._kinds.values()) + sum(map(len, self._reading.values()))

    # --- for `StateCalls` ---

    def place(self, key: SharePartitionKey) -> TopicPartition:
        """Return the partition of ``__share_group_state`` that holds a share partition."""
        return self._calls.coordinator(SHARE_GROUP_STATE_TOPIC, str(key), self._partitions)

    def create(self) -> None:
        """Have the topic of states created."""
        if not self._is_creating:
            self._is_creating = True
            self._create_topic(self._created)

    def _created(self) -> None:
        self._is_creating = False

    def written(self, key: SharePartitionKey) -> None:
        """Note that a write has ended; after the last one, read for what has waited."""
        self._writing[key] -= 1
        if not self._writing[key]:
            del self._writing[key]
            self._calls.make(self._reading.pop(key, ()))


def _without_state(done: Done) -> ReadDone:
    return lambda error_code, state: done(error_code)


def _entry_of(calls: Sequence[StateCall]) -> Any:
    """Return the entry of a request for calls that are joined: later ones have newer values."""
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
