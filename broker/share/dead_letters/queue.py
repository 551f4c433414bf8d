"""Dead letters: copies what the share groups of this broker's partitions have given up to their dead-letter topics.

What is given up of a share partition is a line: one round of it is under way at a time, so that the dead letters keep
its order. A round is made in steps of the event loop, of what is given up by then, and appended with acks=all, here or
at the leader of the dead-letter topic's partition. Its records are archived when that is done or, as in Kafka, when it
has failed for good, which is logged. After an error that passes the line waits in the purgatory "DeadLetter" for its
next try.

The records stay ARCHIVING until then, also at the share coordinator, so that the next leader goes on. Hence a record
that is given up is in the dead-letter topic at least once, but perhaps twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from purgatorio.broker.coordinator.ask_broker import AskBroker
from purgatorio.broker.coordinator.share_settings import ShareSettings
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.delta import changed_topics
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.replica.results import AppendResult
from purgatorio.broker.routing.listings import in_turns
from purgatorio.broker.share.dead_letters.counts import DeadLetterCounts
from purgatorio.broker.share.dead_letters.destination import (
    DeadLetterRules,
    Destination,
    MissingTopic,
    NoDestination,
    destination,
)
from purgatorio.broker.share.dead_letters.line import MAX_LETTERS, GivenUp, Line, LineState, Round, make_round
from purgatorio.broker.share.dead_letters.retry import MAX_TRIES, DelayedDeadLetters, LineKey
from purgatorio.broker.share.giving_up import Archived, GiveUpCause, LetterOwner
from purgatorio.logger import LineBudget, get_logger
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.dead_letter import DELIVERY_LIMIT, REJECTED
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.records import BatchHeader, build_batch
from purgatorio.protocol.share_state import SharePartitionKey
from purgatorio.purgatory import Purgatory
from purgatorio.purgatory.clock import Clock

logger = get_logger(__name__)

MAX_ROUNDS: Final = 16
"""The most rounds under way: their records are in memory, 1 MiB each unless a record is larger."""
PRODUCE_TIMEOUT_MS: Final = 5_000
"""The longest wait for the replicas of a dead-letter topic; less than that for a broker's answer."""

PRODUCE_VERSION: Final = 12
"""The version of requests to write dead letters."""

_PASSING: Final = frozenset(
    {
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # the leader's image may be behind
    }
)
"""Errors after which dead letters are written once more."""

CreateTopic = Callable[[str, Callable[[str | None], None]], None]
"""Creates a dead-letter topic; calls the second argument once, with why it could not; None: the topic exists."""


class DeadLetterQueue:
    """Copies what is given up of the share partitions that one broker leads; implements `DeadLetters`.

    Args:
        image: returns this broker's image; `image_changed` is called when it has changed.
        settings: returns the settings of a group as they are now.
        rules: what brokers allow.
        purgatory: returns "DeadLetter", where lines wait for their next try.
        clock: the time of dead letters.

    Attributes:
        counts: how many there were, by group.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        *,
        image: Callable[[], ClusterImage],
        settings: Callable[[str], ShareSettings],
        rules: DeadLetterRules,
        ask: AskBroker,
        create_topic: CreateTopic,
        purgatory: Callable[[], Purgatory[Any]],
        clock: Clock,
    ) -> None:
        self._replicas = replicas
        self._image = image
        self._settings = settings
        self._rules = rules
        self._ask = ask
        self._create_topic = create_topic
        self._purgatory = purgatory
        self._clock = clock
        self._lost_lines = LineBudget()
        self._not_copied_lines = LineBudget()
        self._lines: dict[SharePartitionKey, Line] = {}
        self._ready: dict[SharePartitionKey, None] = {}
        self._has_ready = asyncio.Event()
        self._rounds = 0  # under way
        self._waiting = 0  # lines that wait for their next try
        self._seen = image()
        self._has_stopped = False
        self.counts = DeadLetterCounts()

    # --- what is given up ---

    def wanted(self, group_id: str) -> bool:
        """Return whether the group has a dead-letter topic, and the cluster's share.version knows of these."""
        return bool(self._settings(group_id).dead_letter_topic) and self._rules.is_on

    def give_up(
        self, owner: LetterOwner, first_offset: int, last_offset: int, delivery_count: int, cause: GiveUpCause
    ) -> None:
        """Copy records to the group's dead-letter topic, and archive them; see `DeadLetters`."""
        line = self._lines.get(owner.key)
        if line is None:
            line = self._lines[owner.key] = Line(owner.key.group_id, owner.tp)
        if cause is GiveUpCause.RESUMED:
            line.leave_to(owner)
            limit = self._settings(owner.key.group_id).delivery_count_limit
            cause = GiveUpCause.DELIVERY_LIMIT if delivery_count >= limit else GiveUpCause.REJECTED
        message = DELIVERY_LIMIT if cause is GiveUpCause.DELIVERY_LIMIT else REJECTED
        line.waiting.append(GivenUp(owner, first_offset, last_offset, delivery_count, message))
        if line.state is None:
            self._make_ready(owner.key, line)

    @property
    def under_way(self) -> int:
        """The share partitions of which not all dead letters are written."""
        return len(self._lines)

    def stop(self) -> None:
        """Write no dead letters from now on: the broker stops. The next leaders do."""
        self._has_stopped = True

    async def run(self) -> None:
        """Make rounds in turns of the loop."""
        await in_turns(self._has_ready, self.steps)

    def image_changed(self, image: ClusterImage) -> None:
        """Begin the next try of lines whose dead-letter topics have new leaders."""
        before, self._seen = self._seen, image
        if not self._waiting:
            return
        for delta in changed_topics(before, image):
            for tp in delta.changed_partitions:
                self._purgatory().check_and_complete(tp, "dead-letter topic")

    # --- lines ---

    def _make_ready(self, key: SharePartitionKey, line: Line) -> None:
        line.state = LineState.READY
        self._ready[key] = None
        self._has_ready.set()

    def _go_on(self, key: SharePartitionKey, line: Line) -> None:
        """Begin the next round, or forget a line of which nothing is left."""
        line.drop_done()
        if line.waiting and not self._has_stopped:
            self._make_ready(key, line)
        else:
            self._forget(key)

    def _forget(self, key: SharePartitionKey) -> None:
        del self._lines[key]

    def steps(self) -> Iterator[None]:
        """Begin rounds, as many as may be under way, in steps."""
        while self._ready and self._rounds < MAX_ROUNDS:
            key = next(iter(self._ready))
            del self._ready[key]
            line = self._lines[key]
            line.state = LineState.ON_ITS_WAY
            self._rounds += 1
            yield from self._begin(key, line)
            yield

    def _end_round(self) -> None:
        self._rounds -= 1
        if self._ready:
            self._has_ready.set()

    # --- rounds ---

    def _begin(self, key: SharePartitionKey, line: Line) -> Iterator[None]:
        """Begin a round."""
        replica = self._leader_of(key, line)
        if replica is None:
            self._forget(key)
            self._end_round()
            return
        settings = self._settings(line.group_id)
        target = destination(self._image(), self._rules, settings.dead_letter_topic, line.tp)
        if not isinstance(target, Destination):
            self._end_round()
            self._without_destination(key, line, target)
            return
        line.target, line.asked = target.tp, target.leader
        if target.leader == NO_LEADER:
            self._end_round()
            self._failed(key, line, "no leader")
            return
        made = yield from make_round(
            line,
            replica,
            copies=settings.copies_dead_letters,
            max_bytes=target.max_bytes,
            now_ms=self._clock.wall_ms(),
            not_copied=self._not_copied,
        )
        yield
        if made.records:
            self._write(key, line, made, target)
        else:
            self._written(key, line, made, ErrorCode.NONE, "")

    def _leader_of(self, key: SharePartitionKey, line: Line) -> Partition | None:
        """Return this broker's replica of a line's records; None if another leader is to go on with them."""
        replica = self._replicas.lookup.known(line.tp)
        if self._has_stopped or replica is None or not replica.is_leader or replica.topic_id != key.topic_id:
            return None
        line.drop_other_epochs(replica.leader_epoch)
        return replica if line.waiting else None

    def _without_destination(self, key: SharePartitionKey, line: Line, target: MissingTopic | NoDestination) -> None:
        if isinstance(target, NoDestination):
            self._give_all_up(key, line, len(line.waiting), target.why)
            return
        line.target, line.asked = TopicPartition(target.name, 0), NO_LEADER
        self._create_topic(target.name, partial(self._created, key, line))

    def _created(self, key: SharePartitionKey, line: Line, why: str | None) -> None:
        if why is None:
            self._go_on(key, line)
        else:
            self._failed(key, line, f"the topic could not be created: {why}")

    def _write(self, key: SharePartitionKey, line: Line, made: Round, target: Destination) -> None:
        batch = build_batch(made.records)
        self.counts.of(line.group_id).requests += 1
        if target.leader == self._replicas.broker_id:
            self._replicas.append(
                [(target.tp, batch)],
                acks=-1,
                timeout_ms=PRODUCE_TIMEOUT_MS,
                done=partial(self._appended, key, line, made),
                client=f"dead letters of {line.group_id}",
            )
            return
        request = produce_request(target.tp, batch, PRODUCE_TIMEOUT_MS)
        done = partial(self._answered, key, line, made)
        self._ask(target.leader, ApiKey.PRODUCE, PRODUCE_VERSION, request, done)

    def _appended(self, key: SharePartitionKey, line: Line, made: Round, results: Sequence[AppendResult]) -> None:
        (result,) = results
        self._written(key, line, made, result.error_code, result.error_message or "")

    def _answered(
        self, key: SharePartitionKey, line: Line, made: Round, response: Any, error: Exception | None
    ) -> None:
        self._written(key, line, made, *result_of(response, error))

    def _written(self, key: SharePartitionKey, line: Line, made: Round, error_code: ErrorCode, why: str) -> None:
        """Note what became of a round."""
        self._end_round()
        if error_code in _PASSING:
            self._failed(key, line, why or error_code.name)
            return
        count = len(made.records)
        if error_code == ErrorCode.MESSAGE_TOO_LARGE and count > 1:  # the topic's max.message.bytes is lower by now
            line.max_letters = count // 2
            self._go_on(key, line)
            return
        line.max_letters = MAX_LETTERS
        if error_code:
            self.counts.of(line.group_id).failures += 1
        elif count:
            self.counts.of(line.group_id).records += count
        made.done()
        for each in line.waiting:
            each.tries = 0
        for owner, ranges in made.archived(written=not error_code):
            if error_code:
                self._lost(line, ranges, f"{error_code.name}: {why}" if why else error_code.name)
            owner.archived(ranges)
        self._go_on(key, line)

    # --- failures ---

    def _failed(self, key: SharePartitionKey, line: Line, why: str) -> None:
        """Wait for the next try, without what has been tried often enough."""
        if self._has_stopped:
            self._forget(key)
            return
        line.why = why
        for each in line.waiting:
            each.tries += 1
        over = sum(each.tries >= MAX_TRIES for each in line.waiting)
        if over:
            self.counts.of(line.group_id).failures += 1
            self._give_all_up(
                key, line, over, f"{MAX_TRIES} tries to write to {line.target} have failed, the last one with: {why}"
            )
            return
        self._wait(key, line)

    def _wait(self, key: SharePartitionKey, line: Line) -> None:
        line.state = LineState.WAITING
        self._waiting += 1
        operation = DelayedDeadLetters(
            line, has_moved=self._has_moved, again=partial(self._again, key), end=partial(self._ended, key)
        )
        self._purgatory().try_complete_else_watch(operation, (LineKey(line.group_id, *line.tp), line.target))

    def _has_moved(self, line: Line) -> bool:
        state = self._image().partition(*line.target)
        return state is not None and state.leader not in (line.asked, NO_LEADER)

    def _again(self, key: SharePartitionKey, line: Line) -> None:
        self._waiting -= 1
        self._go_on(key, line)

    def _ended(self, key: SharePartitionKey, line: Line) -> None:
        self._waiting -= 1
        self._forget(key)

    def _give_all_up(self, key: SharePartitionKey, line: Line, count: int, why: str) -> None:
        """Archive the first parts of a line, which have no dead letters."""
        for _ in range(count):
            given_up = line.waiting.popleft()
            ranges = [given_up.rest()]
            self._lost(line, ranges, why)
            given_up.owner.archived(ranges)
        if line.waiting:
            self._wait(key, line)
        else:
            self._forget(key)

    # --- log lines: few, as consumers decide how many records are given up, and producers how many cannot be copied ---

    def _lost(self, line: Line, ranges: Sequence[Archived], why: str) -> None:
        """Say which records are archived without dead letters."""
        logger.warn_within(
            self._lost_lines,
            self._clock.now_ms(),
            "records are archived without dead letters",
            group=line.group_id,
            records=f"{line.tp} {', '.join(map(_offsets, ranges))}",
            why=why,
        )

    def _not_copied(self, header: BatchHeader, why: str) -> None:
        """Say of which batch the records have dead letters without key and value."""
        event = "records of a batch cannot be copied to a dead-letter topic"
        now_ms = self._clock.now_ms()
        logger.warn_within(self._not_copied_lines, now_ms, event, base_offset=header.base_offset, why=why)


def _offsets(each: Archived) -> str:
    return str(each.first_offset) + (f"–{each.last_offset}" if each.last_offset > each.first_offset else "")


def produce_request(tp: TopicPartition, batch: bytes, timeout_ms: int) -> ProduceRequest:
    """Return the request to append a batch with acks=all."""
    partition = PartitionProduceData(index=tp.partition, records=batch)
    topic = TopicProduceData(name=tp.topic, partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=timeout_ms, topic_data=[topic])


def result_of(response: Any, error: Exception | None) -> tuple[ErrorCode, str]:
    """Return what came of the request, and why, as far as that is told: NETWORK_EXCEPTION if there is no answer."""
    if response is None:
        return ErrorCode.NETWORK_EXCEPTION, "no answer" if error is None else str(error) or type(error).__name__
    results = [partition for topic in response.responses for partition in topic.partition_responses]
    if len(results) != 1:
        return ErrorCode.UNKNOWN_SERVER_ERROR, f"the answer is about {len(results)} partitions"
    return ErrorCode.known(results[0].error_code), results[0].error_message or ""
