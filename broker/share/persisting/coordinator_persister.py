"""The persister of one broker: it finds the share coordinators in the image, and asks them until they answer.

The coordinator of this broker is called, so many times in a turn of the loop; others are asked over TCP. After an error
that passes a call waits in the purgatory "Persister": twice for a moment, as another broker's image may be late or its
coordinator may load; then for longer and longer, as in Kafka. A change of the coordinator's broker ends the wait at
once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from purgatorio.broker.causes.cause import ShareCoordinatorFailed
from purgatorio.broker.coordinator.ask_broker import AskBroker
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.delta import changed_topics
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage
from purgatorio.broker.metadata.topic_name import SHARE_GROUP_STATE_TOPIC
from purgatorio.broker.routing.listings import in_turns
from purgatorio.broker.share.persister import Done, ReadDone
from purgatorio.broker.share.persisting.calls import DELETE, INITIALIZE, READ, SUMMARY, WRITE, Call
from purgatorio.broker.share.persisting.requests import CoordinatorRequests
from purgatorio.broker.share.state.coordinator import ShareCoordinator, exists
from purgatorio.broker.share.state.outcome import Outcome
from purgatorio.late import dataclass
from purgatorio.logger import get_logger
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.coordinator_partition import coordinator_partition
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.delete_share_group_state import DeleteStatePartition
from purgatorio.protocol.messages.initialize_share_group_state import InitializeStatePartition
from purgatorio.protocol.messages.read_share_group_state import ReadStatePartition
from purgatorio.protocol.messages.read_share_group_state_summary import ReadStateSummaryPartition
from purgatorio.protocol.messages.write_share_group_state import WriteStatePartition
from purgatorio.protocol.share_state import SharePartitionKey, StateBatch
from purgatorio.purgatory import DelayedOperation, Purgatory


class DelayedRetry(DelayedOperation):
    """A call that waits until it is made again.

    Args:
        has_moved: whether the call has another coordinator than the one that was asked.
        again: makes the call again; the second argument tells whether the time of the wait is over.
        give_up: ends the call with an error.
        cause: returns what the coordinator answered.
    """

    __slots__ = ("_again", "_call", "_cause", "_give_up", "_has_moved")

    def __init__(
        self,
        delay_ms: int,
        call: Call,
        *,
        has_moved: Callable[[Call], bool],
        again: Callable[[Call, bool], None],
        give_up: Callable[[Call, ErrorCode], None],
        cause: Callable[[Call], ShareCoordinatorFailed],
    ) -> None:
        super().__init__(delay_ms)
        self._call = call
        self._has_moved = has_moved
        self._again = again
        self._give_up = give_up
        self._cause = cause

    def try_complete(self) -> bool:
        """Complete when another broker coordinates the share partition."""
        return self._has_moved(self._call) and self.force_complete()

    def on_complete(self) -> None:
        """Make the call again."""
        self._again(self._call, not self._has_moved(self._call))

    def on_shutdown(self) -> None:
        """End the call: the broker stops."""
        self._give_up(self._call, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def on_error(self, error: Exception) -> None:
        """End the call with UNKNOWN_SERVER_ERROR."""
        self._give_up(self._call, ErrorCode.UNKNOWN_SERVER_ERROR)

    def causes(self) -> tuple[ShareCoordinatorFailed]:
        """Return what the coordinator answered."""
        return (self._cause(self._call),)

    def held_by(self) -> tuple[int, ...]:
        """Return the broker that coordinates the share partition, as far as it is known."""
        return () if self._call.asked == NO_LEADER else (self._call.asked,)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySettings:
    """How calls are made again; the defaults are Kafka's constants.

    Attributes:
        retries: how often a call is made again, beside the quick retries.
        backoff_ms: the first wait, doubled with each further one.
        max_backoff_ms: the longest one.
    """

    retries: int = 5
    backoff_ms: int = 1_000
    max_backoff_ms: int = 30_000


logger = get_logger(__name__)

QUICK_RETRIES_MS: Final = (20, 100)
"""The first waits after a coordinator has moved, which do not count."""

MAX_HERE: Final = 100
"""The most calls of this broker's coordinator in one turn of the loop: some milliseconds."""

LARGE: Final = 500
"""The state batches of a call of this broker's coordinator that has a turn of the loop almost for itself."""

MAX_CALLS: Final = 10_000
"""The most calls that are not done; further ones get COORDINATOR_NOT_AVAILABLE at once."""

_PASSING: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # the coordinator's image may be behind
    }
)
"""Errors after which a call is made again."""


class CoordinatorPersister:
    """Asks share coordinators for one broker; implements `Persister`.

    Args:
        broker_id: this broker, whose own coordinator is called.
        image: returns this broker's image; `image_changed` is called when it has changed.
        create_topic: creates ``__share_group_state``; calls its argument once when it has, or has failed.
        partitions: of that topic, if it does not exist yet.
        purgatory: returns "Persister", where calls wait to be made again.

    Attributes:
        call_count: the calls so far.
        retry_count: how often one was made again.
        failure_count: those that ended with an error.
        asks_itself: returns whether this broker's own coordinator is asked by a request, too: fault rules are about it.
    """

    def __init__(
        self,
        broker_id: int,
        *,
        image: Callable[[], ClusterImage],
        coordinator: ShareCoordinator,
        ask: AskBroker,
        create_topic: Callable[[Callable[[], None]], None],
        partitions: int,
        purgatory: Callable[[], Purgatory[Any]],
        settings: RetrySettings,
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._coordinator = coordinator
        self._requests = CoordinatorRequests(ask, self._answered)
        self._create_topic = create_topic
        self._partitions = partitions
        self._purgatory = purgatory
        self._settings = settings
        self._has_called = asyncio.Event()
        self._here: deque[Call] = deque()  # for this broker's coordinator, in a later turn
        self._made_here = 0  # calls of it in this turn
        self._writing: dict[SharePartitionKey, int] = {}  # how many writes are under way
        # A share partition that was dropped may still be writing when its successor, which no epoch tells apart, reads.
        self._reading: dict[SharePartitionKey, list[Call]] = {}
        self._seen = image()
        self._is_creating = False
        self._has_stopped = False
        self._under_way = 0
        self.call_count = 0
        self.retry_count = 0
        self.failure_count = 0
        self.asks_itself: Callable[[ApiKey], bool] = lambda key: False

    # --- calls ---

    def initialize(self, key: SharePartitionKey, *, state_epoch: int, start_offset: int, done: Done) -> None:
        """Begin a new state; see `Persister`."""
        entry = InitializeStatePartition(partition=key.partition, state_epoch=state_epoch, start_offset=start_offset)
        here = partial(self._coordinator.initialize, key, state_epoch=state_epoch, start_offset=start_offset)
        self._begin(Call(INITIALIZE, key, entry, lambda answer: here(done=answer), _without_state(done)))

    def read(self, key: SharePartitionKey, *, leader_epoch: int, done: ReadDone) -> None:
        """Read the state, and fence older leaders."""
        entry = ReadStatePartition(partition=key.partition, leader_epoch=leader_epoch)
        here = partial(self._coordinator.read, key, leader_epoch=leader_epoch)
        self._begin(Call(READ, key, entry, lambda answer: here(done=answer), done))

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
        weight = 1 + len(entry.state_batches)
        self._begin(Call(WRITE, key, entry, lambda answer: here(done=answer), _without_state(done), weight=weight))

    def delete(self, key: SharePartitionKey, *, done: Done) -> None:
        """Delete the state."""
        here = partial(self._coordinator.delete, key)
        entry = DeleteStatePartition(partition=key.partition)
        self._begin(Call(DELETE, key, entry, lambda answer: here(done=answer), _without_state(done)))

    def summary(self, key: SharePartitionKey, *, leader_epoch: int = -1, done: ReadDone) -> None:
        """Read how far the state has come."""
        here = partial(self._coordinator.summary, key)
        entry = ReadStateSummaryPartition(partition=key.partition, leader_epoch=leader_epoch)
        self._begin(Call(SUMMARY, key, entry, lambda answer: here(done=answer), done))

    @property
    def under_way(self) -> int:
        """The calls that are not done."""
        return self._under_way

    def stop(self) -> None:
        """Make no call again from now on: the broker stops. Calls that wait end when their purgatory is shut down."""
        self._has_stopped = True
        waiting, self._here = self._here, deque()
        for call in waiting:
            self._give_up(call, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def run(self) -> None:
        """Count the calls of this broker's coordinator by turns of the loop."""
        await in_turns(self._has_called, self.steps)

    def steps(self) -> Iterator[None]:
        """Make the calls of this broker's coordinator that came too many in one turn, in steps."""
        self._made_here = 0
        while self._here:
            for _ in range(min(MAX_HERE, len(self._here))):
                call = self._here.popleft()
                self._route(call, has_waited=True)
                if call.weight > LARGE:
                    break
            yield
            self._made_here = 0

    def image_changed(self, image: ClusterImage) -> None:
        """Make the calls again that wait for coordinators that have moved."""
        before, self._seen = self._seen, image
        if not self._under_way:
            return
        for delta in changed_topics(before, image):
            if delta.name == SHARE_GROUP_STATE_TOPIC:
                for tp in delta.changed_partitions:
                    self._purgatory().check_and_complete(tp, "share coordinator")

    # --- on the way ---

    def _begin(self, call: Call) -> None:
        self.call_count += 1
        self._under_way += 1
        if call.kind is WRITE:
            self._writing[call.key] = self._writing.get(call.key, 0) + 1
        if self._under_way > MAX_CALLS:
            self._end(call, Outcome(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        elif call.kind is READ and call.key in self._writing:
            self._reading.setdefault(call.key, []).append(call)
        else:
            self._route(call)

    def _route(self, call: Call, *, has_waited: bool = False) -> None:
        """Ask the coordinator where the newest image has it; this broker's own perhaps in a later turn."""
        call.asked = broker_id = self._leader(call.key)
        if broker_id == NO_LEADER:
            if SHARE_GROUP_STATE_TOPIC not in self._image().topics:
                self._create()
            self._answered(call, Outcome(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no leader"))
        elif broker_id != self._broker_id or self.asks_itself(call.kind.api_key):
            self._requests.send(broker_id, call)
        elif (self._made_here < MAX_HERE and (has_waited or call.weight <= LARGE)) or self._has_stopped:
            self._call_here(call)
        else:
            self._here.append(call)
            self._has_called.set()

    def _call_here(self, call: Call) -> None:
        if not self._made_here:
            self._has_called.set()
        self._made_here += 1
        try:
            call.here(partial(self._answered, call))
        except Exception:  # a bug; the caller must get an answer all the same
            logger.exception("a share coordinator failed", share_partition=str(call.key))
            self._answered(call, Outcome(ErrorCode.UNKNOWN_SERVER_ERROR))

    def _create(self) -> None:
        if not self._is_creating:
            self._is_creating = True
            self._create_topic(self._created)

    def _created(self) -> None:
        self._is_creating = False

    def _state_partition(self, key: SharePartitionKey) -> TopicPartition:
        """Return the partition of ``__share_group_state`` that holds a share partition."""
        topic = self._image().topics.get(SHARE_GROUP_STATE_TOPIC)
        partitions = self._partitions if topic is None else len(topic.partitions)
        return TopicPartition(SHARE_GROUP_STATE_TOPIC, coordinator_partition(str(key), partitions))

    def _leader(self, key: SharePartitionKey) -> int:
        """Return the broker that coordinates a share partition, or NO_LEADER."""
        state = self._image().partition(*self._state_partition(key))
        return NO_LEADER if state is None else state.leader

    # --- answers ---

    def _answered(self, call: Call, outcome: Outcome) -> None:
        """Pass an outcome on, or wait and make the call again."""
        if call.done is None:
            return
        error_code = outcome.error_code
        if error_code not in _PASSING or (
            error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not exists(self._image(), call.key)
        ):
            self._end(call, outcome)
            return
        call.why = outcome.message or error_code.name if error_code == ErrorCode.NETWORK_EXCEPTION else error_code.name
        delay_ms = self._delay_ms(call)
        if delay_ms is None:
            is_silent = self._has_stopped or error_code == ErrorCode.NETWORK_EXCEPTION
            self._end(call, Outcome(ErrorCode.COORDINATOR_NOT_AVAILABLE) if is_silent else outcome)
            return
        operation = DelayedRetry(
            delay_ms, call, has_moved=self._has_moved, again=self._again, give_up=self._give_up, cause=self._cause
        )
        self._purgatory().try_complete_else_watch(operation, (call.key, self._state_partition(call.key)))

    def _delay_ms(self, call: Call) -> int | None:
        """Return how long to wait until the call is made again; None if it has been made often enough."""
        if self._has_stopped:
            return None
        if call.quick_retries < len(QUICK_RETRIES_MS):
            return QUICK_RETRIES_MS[call.quick_retries]
        settings = self._settings
        if call.retries >= settings.retries:
            return None
        return min(settings.backoff_ms << call.retries, settings.max_backoff_ms)

    def _has_moved(self, call: Call) -> bool:
        return self._leader(call.key) not in (call.asked, NO_LEADER)

    def _again(self, call: Call, is_time_over: bool) -> None:
        self.retry_count += 1
        if not is_time_over:
            call.quick_retries = 0
        elif call.quick_retries < len(QUICK_RETRIES_MS):
            call.quick_retries += 1
        else:
            call.retries += 1
        self._route(call)

    def _give_up(self, call: Call, error_code: ErrorCode) -> None:
        self._end(call, Outcome(error_code))

    def _cause(self, call: Call) -> ShareCoordinatorFailed:
        topic = self._image().topic_by_id(call.key.topic_id)
        name = str(call.key).split(":")[-2] if topic is None else topic.name
        asked = None if call.asked == NO_LEADER else call.asked
        left = self._settings.retries - call.retries
        tp = TopicPartition(name, call.key.partition)
        return ShareCoordinatorFailed(tp, call.key.group_id, call.kind.verb, asked, call.why, left)

    def _end(self, call: Call, outcome: Outcome) -> None:
        done, call.done = call.done, None
        if done is None:
            return
        self._under_way -= 1
        self.failure_count += outcome.error_code != ErrorCode.NONE
        if call.kind is WRITE:
            self._written(call.key)
        try:
            done(outcome.error_code, outcome.state)
        except Exception:  # a bug; it must not keep their answers from others
            logger.exception("the answer of a share coordinator could not be noted", share_partition=str(call.key))

    def _written(self, key: SharePartitionKey) -> None:
        """Note that a write has ended; after the last one, read for what has waited."""
        self._writing[key] -= 1
        if not self._writing[key]:
            del self._writing[key]
            for call in self._reading.pop(key, ()):
                self._route(call)


def _without_state(done: Done) -> ReadDone:
    return lambda error_code, state: done(error_code)
