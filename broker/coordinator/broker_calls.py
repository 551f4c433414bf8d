"""How this broker asks those that lead keys: end markers, verifications, ends of logs, share states, dead letters.

A call is about a partition, and goes to its leader in the newest image: to this broker as a plain call, of which each
turn of the loop makes so many, to another one in a request. The first calls to a broker go at once; those that come
while it has several requests to answer share the next ones. So a broker that answers slowly is not asked ever more.

A call that failed with an error that passes waits in the purgatory of its kind, which the page shows, until the time of
its next try, or until the image has another leader. A kind of calls is a `CallKind`, with all that it has of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from purgatorio.broker.causes.cause import CallFailed, DeadLettersNotWritten, ShareCoordinatorFailed
from purgatorio.broker.causes.kinds import Kind
from purgatorio.broker.causes.purgatories import Purgatories
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.delta import changed_topics
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage, PartitionState
from purgatorio.broker.metadata.store import MetadataStore
from purgatorio.broker.time.long_work import SLICE, OwnWork, Steps
from purgatorio.logger import get_logger
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.coordinator_partition import coordinator_partition
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.message import Message
from purgatorio.purgatory import DelayedOperation

logger = get_logger(__name__)

MAX_CALLS: Final = 10_000
"""The most calls of a kind that are not done, if nothing else bounds them."""
MAX_REQUESTS: Final = 4
"""The most requests of one kind to one broker that wait for answers, if the kind does not say otherwise."""
MAX_HERE: Final = 100
"""The most calls of this broker in one turn of the loop, likewise."""
LARGE: Final = 500
"""The weight of a call of this broker that has a turn of the loop almost for itself."""
MAX_DOUBLINGS: Final = 20
"""The most doublings of a wait."""


AskBroker = Callable[[int, ApiKey, int, Any, Callable[[Any, Exception | None], None]], None]
"""Sends another broker a request, in a version; calls the last argument once, perhaps before it returns: with the
response, or with None and why there is none (see `purgatorio.broker.server.peers.Peers.send`)."""


class Answer(NamedTuple):
    """The result of a call.

    Attributes:
        message: the reason of an error; "": the code says it.
        value: what was asked for.
    """

    error_code: ErrorCode = ErrorCode.NONE
    message: str = ""
    value: Any = None


SUCCESS: Final = Answer()


class Retries(NamedTuple):
    """When a call is made again.

    Attributes:
        first_ms: the first wait, doubled with each further one.
        max_ms: the longest one.
        times: how often a call is made again; None: for ever.
        quick_ms: waits before these, which do not count: another broker's image may be late.
    """

    first_ms: int
    max_ms: int
    times: int | None = None
    quick_ms: tuple[int, ...] = ()


class Call:
    """A call, until it is done.

    Attributes:
        kind: what it has in common with others.
        tp: the partition whose leader is asked, see `CallKind.place`.
        id: what an answer names it by; a request has one call of an id.
        lane: only calls of one lane share a request; the lanes take turns.
        weight: how many elements it takes of what a request may have.
        asked: the broker that was asked last, or NO_LEADER if there was none to ask.
        tries: how often it was made.
        retries: how often it was made again since its time had come, without quick retries.
        why: why the last try failed; "" before that.
        pause: what its retries count by; None before the first failure.
        is_waiting: whether it waits for the end of that.
        is_done: whether it has ended, or was not made yet.
    """

    __slots__ = ("asked", "id", "is_done", "is_waiting", "kind", "lane", "linked", "pause", "retries", "tp", "tries",
                 "weight", "why")  # fmt: skip

    def __init__(
        self, kind: CallKind[Any], tp: TopicPartition, an_id: Hashable, *, lane: Hashable = None, weight: int = 1
    ) -> None:
        self.kind = kind
        self.tp = tp
        self.id = an_id
        self.lane = lane
        self.weight = weight
        self.asked = NO_LEADER
        self.tries = self.retries = 0
        self.why = ""
        self.pause: Pause | None = None
        self.is_waiting = False
        self.is_done = True
        self.linked: TopicPartition | None = None  # where `BrokerCalls` has it, for changes of the image


C = TypeVar("C", bound=Call)


class CallKind(Generic[C]):
    """The common part of calls of one API, from which users derive kinds.

    Attributes:
        row: the row of its purgatory.
        api_key, version: of its requests.
        passing: the errors after which a call is made again.
        retries: when.
        max_requests: the most requests to one broker that wait for answers.
        max_ids: the most calls of a request: some milliseconds of a broker's time.
        max_weight: the most elements of a request, unless one call has more.
        max_here: the most calls of this broker in one turn of the loop.
        is_bounded: whether calls above `MAX_CALLS` end with `refusal`.
        follows: whether a call goes to a new leader before the former one has answered, whose answer counts if it is
            no error.
        by_partition: whether errors are those of the partition: calls wait for it together, until one succeeds or the
            partition's state changes in any way.
        takes_back: whether `again` has a call whose wait is over; otherwise it is made as it is.
        refusal: the answer to a call that is one too many, or that the broker's stop ends.
        event: the change of the leader, for observers.
        call_count: the calls that are not done.
    """

    row: Kind
    api_key: ApiKey
    version: int
    passing: Container[ErrorCode]
    retries: Retries
    max_requests: int = MAX_REQUESTS
    max_ids: int = 100
    max_weight: int = 1 << 60
    max_here: int = MAX_HERE
    is_bounded: ClassVar[bool] = False
    follows: ClassVar[bool] = False
    by_partition: ClassVar[bool] = False
    takes_back: ClassVar[bool] = False
    refusal: ClassVar[Answer] = Answer(ErrorCode.NETWORK_EXCEPTION, "this broker stops")
    event: ClassVar[str] = "leader"
    call_count: int = 0

    # --- where ---

    def place(self, call: C) -> TopicPartition:
        """Return the partition whose leader is to be asked."""
        return call.tp

    def without_leader(self, call: C, *, exists: bool) -> Answer:
        """Return what becomes of a call whose partition has no leader, or does not exist."""
        return Answer(ErrorCode.LEADER_NOT_AVAILABLE, "no leader")

    def asks_itself(self) -> bool:
        """Return whether this broker gets requests of its own, too."""
        return False

    # --- here ---

    def groups(self, calls: list[C]) -> Iterable[list[C]]:
        """Return calls of this broker as they are made together; a failure of some is none of the others."""
        return ([call] for call in calls)

    def here(self, calls: list[C], answered: Callable[[C, Answer], None]) -> None:
        """Make the calls of a group on this broker, and answer each once, now or later."""
        raise NotImplementedError

    # --- there ---

    def joins(self, first: C, call: C, weight: int) -> bool:
        """Return whether a call can share the id of another one in a request, which weighs so much with it."""
        return False

    def request(self, calls: Mapping[Any, list[C]]) -> Message:
        """Return the request with calls of one lane, by their ids."""
        raise NotImplementedError

    def answers(self, response: Any, calls: Mapping[Any, list[C]]) -> Mapping[Any, Answer]:
        """Return what a response says, by the calls' ids."""
        raise NotImplementedError

    # --- after an answer ---

    def passes(self, call: C, answer: Answer) -> bool:
        """Return whether a call is to be made again after this answer."""
        return answer.error_code in self.passing

    def delay_ms(self, call: C, pause: Pause) -> int | None:
        """Return how long a call waits until it is made again; None if it was made often enough."""
        retries = self.retries
        if pause.quick < len(retries.quick_ms):
            return retries.quick_ms[pause.quick]
        if retries.times is not None and call.retries >= retries.times:
            return None
        return min(retries.first_ms << min(pause.failures, MAX_DOUBLINGS), retries.max_ms)

    def waits_with(self, call: C) -> Hashable:
        """Return the same for calls that wait together."""
        return call.tp if self.by_partition else call

    def keys(self, call: C) -> tuple[Hashable, ...]:
        """Return the watch keys of a wait that begins with this call."""
        return (call.tp,)

    def paused(self, call: C, pause: Pause) -> None:
        """Note that a wait has begun."""

    def cause(self, pause: Pause, waited_ms: int) -> CallFailed | ShareCoordinatorFailed | DeadLettersNotWritten:
        """Return why calls wait."""
        first = next(iter(pause.calls))
        asked = None if first.asked == NO_LEADER else first.asked
        more_count = len(pause.calls) - 1
        others = f", with {more_count} other{'s' * (more_count > 1)}," if more_count else ""
        return CallFailed(first.tp, self.named(first) + others, asked, first.why, first.tries, waited_ms)

    def named(self, call: C) -> str:
        """Return a call in words."""
        raise NotImplementedError

    def again(self, call: C) -> None:
        """Take back a call whose wait is over, if `takes_back`: to make it once more, or to drop it."""
        raise NotImplementedError

    def ended(self, call: C, answer: Answer) -> None:
        """Take the answer, which comes once."""
        raise NotImplementedError


class Pause:
    """A wait that calls share, again and again.

    Attributes:
        calls: those that wait; others have been made again.
        members: those that have waited, and are not done.
        quick, failures: the waits whose time was over, quick ones and others.
        since_ms: when the first one began.
        seen: the partitions at the last failure: the leader that was asked, and the state.
        is_over: whether an event has ended the wait.
        operation: the wait; None between two of them.
    """

    __slots__ = ("calls", "failures", "is_over", "key", "kind", "members", "operation", "quick", "seen", "since_ms")

    def __init__(self, kind: CallKind[Any], key: Hashable, since_ms: int) -> None:
        self.kind = kind
        self.key = key
        self.since_ms = since_ms
        self.calls: dict[Any, None] = {}
        self.members = self.quick = self.failures = 0
        self.seen: dict[TopicPartition, tuple[int, PartitionState | None]] = {}
        self.is_over = False
        self.operation: DelayedCalls | None = None


class DelayedCalls(DelayedOperation):
    """Calls that wait until they are made again."""

    __slots__ = ("_calls", "_pause", "_seen")

    def __init__(self, delay_ms: int, calls: BrokerCalls, pause: Pause) -> None:
        super().__init__(delay_ms)
        self._calls = calls
        self._pause = pause
        self._seen = pause.seen

    def try_complete(self) -> bool:
        """Complete when the partition has another leader than the one that was asked, or an event has ended it."""
        return self._calls.may_go_on(self._pause) and self.force_complete()

    def on_complete(self) -> None:
        """Make the calls again."""
        self._calls.resume(self._pause)

    def on_shutdown(self) -> None:
        """End the calls: the broker stops."""
        self._calls.end(self._pause, self._pause.kind.refusal)

    def on_error(self, error: Exception) -> None:
        """End the calls with UNKNOWN_SERVER_ERROR."""
        self._calls.end(self._pause, Answer(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))

    def causes(self) -> Sequence[CallFailed | ShareCoordinatorFailed | DeadLettersNotWritten]:
        """Return why the calls wait."""
        return self._calls.causes(self._pause)

    def held_by(self) -> tuple[int, ...]:
        """Return the brokers that were asked."""
        asked = dict.fromkeys(broker_id for broker_id, _ in self._seen.values())
        asked.pop(NO_LEADER, None)
        return tuple(asked)


_Try = tuple[Any, int]
"""A call, and the number of the try."""


class _Destination:
    """A broker, for calls of one kind.

    Attributes:
        is_here: whether it is this broker, which is called.
        lanes: the calls that are to be made, each with its try; no lane is empty. Of this broker there is one.
        under_way: the requests that it has not answered, or the calls of this broker in this turn of the loop.
        limit: the most of these.
    """

    __slots__ = ("broker_id", "is_here", "kind", "lanes", "limit", "under_way")

    def __init__(self, kind: CallKind[Any], broker_id: int, *, is_here: bool) -> None:
        self.kind = kind
        self.broker_id = broker_id
        self.is_here = is_here
        self.limit = kind.max_here if is_here else kind.max_requests
        self.lanes: dict[Hashable, deque[_Try]] = {}
        self.under_way = 0

    @property
    def has_room(self) -> bool:
        """Whether more may be under way."""
        return self.under_way < self.limit


class BrokerCalls:
    """Makes the calls of one broker.

    Args:
        store: has this broker's image; `image_changed` is called when it has changed.
        purgatories: have one for each row, where calls wait to be made again.
        work: makes in later turns of the loop what is too much for one.
    """

    def __init__(
        self,
        broker_id: int,
        *,
        store: MetadataStore,
        ask: AskBroker,
        purgatories: Purgatories,
        work: OwnWork,
    ) -> None:
        self._broker_id = broker_id
        self._store = store
        self._ask = ask
        self._purgatories = purgatories
        self._seen = store.image
        self._by_partition: dict[TopicPartition, dict[Any, None]] = {}
        self._pauses: dict[tuple[CallKind[Any], Hashable], Pause] = {}
        self._destinations: dict[tuple[CallKind[Any], int, bool], _Destination] = {}
        self._ready: dict[_Destination, None] = {}  # with calls that could be made
        self._heavy: deque[tuple[_Destination, _Try]] = deque()  # of this broker, each for another turn
        self._is_sending = False
        self._wake = work.whenever_woken(self.steps)
        self._has_stopped = False

    # --- doors ---

    def make(self, calls: Sequence[Call]) -> None:
        """Make calls; `CallKind.ended` has the answer of each, perhaps before this returns."""
        for call in calls:
            call.is_done = False
            call.kind.call_count += 1
        is_alone = len(calls) == 1
        for call in calls:
            kind = call.kind
            if kind.is_bounded and kind.call_count > MAX_CALLS and not call.is_done:
                self._end(call, kind.refusal)
            else:
                self._route(call, is_alone=is_alone)
        if self._ready:
            self._send()

    def fail(self, call: Call, answer: Answer) -> None:
        """Take a call as made, and failed with this answer: without a leader it could not even be put together."""
        call.is_done = False
        call.kind.call_count += 1
        call.asked = NO_LEADER
        call.tries += 1
        self._answered(call, call.tries, answer)
        self._send()

    def drop(self, call: Call) -> None:
        """Make a call no more, without an answer."""
        if not call.is_done:
            self._leave(call)
        self._leave_pause(call)

    def coordinator(self, topic_name: str, key: str, partitions: int = 1) -> TopicPartition:
        """Return the partition of a coordinators' topic that a key is hashed to.

        Args:
            partitions: how many there will be if the topic does not exist yet.
        """
        topic = self._store.image.topics.get(topic_name)
        count = partitions if topic is None else len(topic.partitions)
        return TopicPartition(topic_name, coordinator_partition(key, count))

    def image_changed(self, image: ClusterImage) -> None:
        """Make the calls again whose partitions have other leaders."""
        before, self._seen = self._seen, image
        if not self._by_partition:
            return
        for delta in changed_topics(before, image):
            for tp in delta.changed_partitions:
                if tp in self._by_partition:
                    self._partition_changed(tp)
        self._send()

    def stop(self) -> None:
        """Make no call again from now on: the broker stops. Calls that wait end when their purgatory is shut down."""
        self._has_stopped = True
        waiting = [each for _, each in self._heavy]
        self._heavy.clear()
        for destination in self._here():
            waiting += [each for queue in destination.lanes.values() for each in queue]
            destination.lanes.clear()
        for call, nth in waiting:
            if call.tries == nth and not call.is_done:
                self._end(call, call.kind.refusal)

    def steps(self) -> Steps:
        """Make the calls of this broker that came too many in one turn, in later ones."""
        while True:
            for destination in self._here():
                destination.under_way = 0
                if destination.lanes:
                    self._ready[destination] = None
            if self._heavy:
                destination, (call, nth) = self._heavy.popleft()
                self._add(destination, call, nth)
            if not self._ready:
                return
            self._send()
            yield SLICE

    def _here(self) -> list[_Destination]:
        return [each for each in self._destinations.values() if each.is_here]

    # --- on the way ---

    def _route(self, call: Call, *, is_alone: bool = False) -> None:
        """Put a call on its way to the leader; `_send` makes it. One that is alone may be made here at once."""
        if call.is_done:
            return
        kind = call.kind
        call.tp = tp = kind.place(call)
        if tp != call.linked and (kind.follows or call.linked is not None):
            self._link(call)
        state = self._store.image.partition(*tp)
        call.tries = nth = call.tries + 1
        call.asked = leader = NO_LEADER if state is None else state.leader
        if leader == NO_LEADER:
            self._answered(call, nth, kind.without_leader(call, exists=state is not None))
            return
        is_here = leader == self._broker_id and not kind.asks_itself()
        key = (kind, leader, is_here)
        destination = self._destinations.get(key)
        if destination is None:
            destination = self._destinations[key] = _Destination(kind, leader, is_here=is_here)
        if is_here and call.weight > LARGE and not self._has_stopped:
            self._heavy.append((destination, (call, nth)))
            self._wake()
        elif is_alone and is_here and not (self._is_sending or destination.lanes) and destination.has_room:
            self._is_sending = True
            try:
                self._call_group(destination, [call])
            finally:
                self._is_sending = False
        else:
            self._add(destination, call, nth)

    def _add(self, destination: _Destination, call: Call, nth: int) -> None:
        lane = None if destination.is_here else call.lane
        queue = destination.lanes.get(lane)
        if queue is None:
            queue = destination.lanes[lane] = deque()
        queue.append((call, nth))
        self._ready[destination] = None

    def _send(self) -> None:
        """Make the calls that are ready; what becomes ready by an answer in between is made by the same loop."""
        if self._is_sending:
            return
        self._is_sending = True
        try:
            while self._ready:
                destination = next(iter(self._ready))
                del self._ready[destination]
                while destination.lanes and (destination.has_room or (destination.is_here and self._has_stopped)):
                    if destination.is_here:
                        self._call_here(destination)
                    else:
                        self._ask_there(destination)
                if destination.is_here and destination.lanes:
                    self._wake()
        finally:
            self._is_sending = False

    def _next(self, destination: _Destination, queue: deque[_Try]) -> Any:
        """Return the first call of a queue; not those that meanwhile go another way, or are done."""
        while queue:
            call, nth = queue[0]
            is_live = not call.is_done and call.tries == nth
            if is_live and self.leader(call.tp) == destination.broker_id:
                return call
            queue.popleft()
            if is_live:
                self._route(call)
        return None

    def _call_here(self, destination: _Destination) -> None:
        kind = destination.kind
        ((lane, queue),) = destination.lanes.items()
        room = len(queue) if self._has_stopped else destination.limit - destination.under_way
        calls: list[Any] = []
        while len(calls) < room:
            call = self._next(destination, queue)
            if call is None:
                break
            queue.popleft()
            calls.append(call)
        if not queue:
            del destination.lanes[lane]
        for group in kind.groups(calls):
            self._call_group(destination, group)

    def _call_group(self, destination: _Destination, group: list[Any]) -> None:
        kind = destination.kind
        if not destination.under_way:
            self._wake()  # the next turn has room again
        destination.under_way += len(group)
        answered = partial(self._here_answered, {call: call.tries for call in group})
        try:
            kind.here(group, answered)
        except Exception:  # a bug; those who call must get an answer all the same
            logger.exception("a call of this broker failed", api_key=kind.api_key.name, partition=str(group[0].tp))
            for call in group:
                answered(call, Answer(ErrorCode.UNKNOWN_SERVER_ERROR))

    def _here_answered(self, tries: Mapping[Any, int], call: Call, answer: Answer) -> None:
        self._answered(call, tries[call], answer)
        if self._ready:
            self._send()

    def _ask_there(self, destination: _Destination) -> None:
        """Send a request with calls of the next lane."""
        kind = destination.kind
        lane, queue = next(iter(destination.lanes.items()))
        calls: dict[Hashable, list[Any]] = {}
        weight = 0
        while (call := self._next(destination, queue)) is not None:
            joined = calls.get(call.id)
            weight += call.weight
            if joined is not None:
                if not kind.joins(joined[-1], call, weight):
                    break
                joined.append(call)
            elif calls and (weight > kind.max_weight or len(calls) >= kind.max_ids):
                break
            else:
                calls[call.id] = [call]
            queue.popleft()
        del destination.lanes[lane]
        if queue:
            destination.lanes[lane] = queue
        if calls:
            destination.under_way += 1
            tries = [(an_id, (call, call.tries)) for an_id, joined in calls.items() for call in joined]
            done = partial(self._there_answered, destination, calls, tries)
            self._ask(destination.broker_id, kind.api_key, kind.version, kind.request(calls), done)

    def _there_answered(
        self,
        destination: _Destination,
        calls: Mapping[Hashable, list[Any]],
        tries: Sequence[tuple[Hashable, _Try]],
        response: Any,
        error: Exception | None,
    ) -> None:
        destination.under_way -= 1
        self._ready[destination] = None
        answers = {} if response is None else destination.kind.answers(response, calls)
        why = "no answer" if error is None else str(error) or type(error).__name__
        missing = Answer(ErrorCode.NETWORK_EXCEPTION, why)
        for an_id, (call, nth) in tries:
            self._answered(call, nth, answers.get(an_id, missing))
        self._send()

    # --- answers ---

    def _answered(self, call: Call, nth: int, answer: Answer) -> None:
        """Pass an answer on, or make the call again."""
        if call.is_done:
            return
        kind = call.kind
        if call.tries != nth or call.is_waiting:
            if kind.follows and not answer.error_code:
                self._end(call, answer)
        elif not kind.passes(call, answer):
            self._end(call, answer)
        elif self._has_stopped:
            self._end(call, kind.refusal)
        else:
            call.why = answer.message or answer.error_code.name
            self._wait(call, answer)

    def _end(self, call: Call, answer: Answer) -> None:
        kind = call.kind
        self._leave(call)
        if call.pause is not None:
            self._leave_pause(call)
        if kind.by_partition and not answer.error_code:
            pause = self._pauses.get((kind, kind.waits_with(call)))
            if pause is not None:
                pause.failures = 0
                self._end_wait(pause, "a call has succeeded", call.tp)
        try:
            kind.ended(call, answer)
        except Exception:  # a bug; it must not keep their answers from others
            logger.exception("the answer to a call could not be noted", api_key=kind.api_key.name)

    def _leave(self, call: Call) -> None:
        call.is_done = True
        call.kind.call_count -= 1
        if call.linked is not None:
            self._unlink(call, call.linked)

    def _leave_pause(self, call: Call) -> None:
        pause, call.pause, call.is_waiting = call.pause, None, False
        if pause is None:
            return
        pause.calls.pop(call, None)
        pause.members -= 1
        if not pause.members:
            del self._pauses[pause.kind, pause.key]
        if not pause.calls and pause.operation is not None:
            operation, pause.operation = pause.operation, None
            self._purgatories.of(pause.kind.row).cancel(operation)

    def _link(self, call: Call) -> None:
        if call.linked is not None:
            self._unlink(call, call.linked)
        call.linked = call.tp
        self._by_partition.setdefault(call.tp, {})[call] = None

    def _unlink(self, call: Call, tp: TopicPartition) -> None:
        call.linked = None
        calls = self._by_partition[tp]
        del calls[call]
        if not calls:
            del self._by_partition[tp]

    # --- waits ---

    def _wait(self, call: Call, answer: Answer) -> None:
        """Keep a call until its next try."""
        kind = call.kind
        purgatory = self._purgatories.of(kind.row)
        pause = call.pause
        if pause is None:
            key = kind, kind.waits_with(call)
            pause = self._pauses.get(key)
            if pause is None:
                pause = self._pauses[key] = Pause(*key, purgatory.now_ms())
            call.pause = pause
            pause.members += 1
        delay_ms = kind.delay_ms(call, pause)
        if delay_ms is None:
            self._end(call, answer)
            return
        if call.linked is None:
            self._link(call)
        call.is_waiting = True
        pause.calls[call] = None
        pause.seen[call.tp] = seen = call.asked, self._store.image.partition(*call.tp)
        if pause.operation is None:
            pause.operation = operation = DelayedCalls(delay_ms, self, pause)
            kind.paused(call, pause)
            purgatory.try_complete_else_watch(operation, kind.keys(call))
        elif self._has_changed(kind, call.tp, seen):
            self._end_wait(pause, kind.event, call.tp)

    def may_go_on(self, pause: Pause) -> bool:
        """Return whether calls need not wait for their time: a partition has another leader, or another state."""
        return pause.is_over or any(self._has_changed(pause.kind, *each) for each in pause.seen.items())

    def _has_changed(self, kind: CallKind[Any], tp: TopicPartition, seen: tuple[int, PartitionState | None]) -> bool:
        asked, before = seen
        state = self._store.image.partition(*tp)
        if state is None:
            return kind.by_partition and before is not None
        return state.leader not in (asked, NO_LEADER) or (
            kind.by_partition and state.leader != NO_LEADER and state is not before
        )

    def resume(self, pause: Pause) -> None:
        """Make calls again whose wait is over."""
        kind = pause.kind
        is_counted = False
        if self.may_go_on(pause):
            pause.quick = 0
        elif pause.quick < len(kind.retries.quick_ms):
            pause.quick += 1
        else:
            pause.failures += 1
            is_counted = True
        calls, pause.calls = pause.calls, {}
        pause.operation = None
        pause.is_over = False
        pause.seen = {}
        for call in calls:
            call.is_waiting = False
            call.retries += is_counted
            if kind.takes_back:
                self._leave(call)
                kind.again(call)
            else:
                self._route(call)
        self._send()

    def end(self, pause: Pause, answer: Answer) -> None:
        """End calls that wait."""
        pause.operation = None
        for call in list(pause.calls):
            self._end(call, answer)

    def causes(self, pause: Pause) -> Sequence[CallFailed | ShareCoordinatorFailed | DeadLettersNotWritten]:
        """Return why calls wait."""
        if not pause.calls:
            return ()
        return (pause.kind.cause(pause, self._purgatories.of(pause.kind.row).now_ms() - pause.since_ms),)

    def _end_wait(self, pause: Pause, event: str, tp: TopicPartition) -> None:
        if pause.operation is not None:
            pause.is_over = True
            self._purgatories.of(pause.kind.row).check(pause.operation, event, tp)

    def leader(self, tp: TopicPartition) -> int | None:
        """Return a partition's leader in the newest image, or NO_LEADER; None if the partition does not exist."""
        state = self._store.image.partition(*tp)
        return None if state is None else state.leader

    def _partition_changed(self, tp: TopicPartition) -> None:
        leader = self.leader(tp)
        pauses: dict[Pause, None] = {}
        for call in list(self._by_partition[tp]):
            if call.is_waiting:
                pauses[call.pause] = None
            elif call.kind.follows and leader not in (call.asked, NO_LEADER):
                self._route(call)
        for pause in pauses:
            seen = pause.seen.get(tp)  # None: by a success it is over already
            if seen is not None and self._has_changed(pause.kind, tp, seen):
                self._end_wait(pause, pause.kind.event, tp)
