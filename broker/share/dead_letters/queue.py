"""Dead letters: copies of records that share groups of this broker's partitions gave up, in their dead-letter topics.

Records that a share partition has given up are a backlog: one batch of it is under way at a time, so that the dead
letters keep its order. A batch is made in steps of the event loop, of what is given up by then, and appended with
acks=all, here or at the leader of the dead-letter topic's partition. Its records are archived when that is done or, as
in Kafka, when it has failed for good, which is logged. After an error that passes the backlog waits in the purgatory
"DeadLetter" for its next try.

The records stay ARCHIVING until then, also at the share coordinator, so that the next leader goes on. Hence a record
that is given up is in the dead-letter topic at least once, but perhaps twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from purgatorio.broker.causes.cause import DeadLettersNotWritten
from purgatorio.broker.causes.kinds import DEAD_LETTER
from purgatorio.broker.coordinator.broker_calls import Answer, BrokerCalls, CallKind, Pause, Retries
from purgatorio.broker.coordinator.share_settings import ShareSettings
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage
from purgatorio.broker.replica.partition import Partition, PartitionError
from purgatorio.broker.replica.producing.writes import AppendResult
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.routing import passing_errors
from purgatorio.broker.share.dead_letters.backlog import (
    MAX_RECORDS,
    Backlog,
    BacklogKey,
    DeadLetterBatch,
    GivenUp,
    make_batch,
)
from purgatorio.broker.share.dead_letters.destination import (
    DeadLetterRules,
    Destination,
    MissingTopic,
    NoDestination,
    destination,
)
from purgatorio.broker.share.dead_letters.source import READ_BYTES
from purgatorio.broker.share.giving_up import Archived, DeadLetterCounts, GiveUpCause, RecordsOwner
from purgatorio.broker.tier.reads import PartRead
from purgatorio.broker.time.long_work import OwnWork, Steps
from purgatorio.logger import LineBudget, get_logger
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.compression import Buffer
from purgatorio.protocol.dead_letter import DELIVERY_LIMIT, REJECTED
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.records import BatchHeader, build_batch
from purgatorio.protocol.share_state import SharePartitionKey
from purgatorio.purgatory.clock import Clock

logger = get_logger(__name__)

MAX_BATCHES: Final = 16
"""The most batches under way: their records are in memory, 1 MiB each unless a record is larger."""
MAX_TRIES: Final = 5
"""How often dead letters are written, at most; Kafka's constant."""
BACKOFF_MS: Final = 1_000
"""Doubled by each try that has failed: 2 s after the first one; Kafka's constant."""
MAX_BACKOFF_MS: Final = 30_000
"""The longest time between two tries; Kafka's constant."""
PRODUCE_TIMEOUT_MS: Final = 5_000
"""The longest wait for the replicas of a dead-letter topic; less than that for a broker's answer."""

PRODUCE_VERSION: Final = 12
"""The version of requests to write dead letters."""

NOT_COPIED: Final = "records of a batch cannot be copied to a dead-letter topic"

CreateTopic = Callable[[str, Callable[[str | None], None]], None]
"""Creates a dead-letter topic; calls the second argument once, with why it could not; None: the topic exists."""


class DeadLetterQueue(CallKind[Backlog]):
    """Copies what is given up of the share partitions that one broker leads; implements `DeadLetters`.

    Args:
        image: returns this broker's image.
        settings: returns the settings of a group as they are now.
        rules: what brokers allow.
        clock: the time of dead letters.

    Attributes:
        counts: how many there were, by group.
    """

    row = DEAD_LETTER
    api_key = ApiKey.PRODUCE
    version = PRODUCE_VERSION
    passing = passing_errors.DEAD_LETTERS
    retries = Retries(BACKOFF_MS, MAX_BACKOFF_MS)
    max_requests = MAX_BATCHES
    max_ids = 1
    takes_back = True
    event = "dead-letter topic"

    def __init__(
        self,
        calls: BrokerCalls,
        replicas: ReplicaManager,
        *,
        image: Callable[[], ClusterImage],
        settings: Callable[[str], ShareSettings],
        rules: DeadLetterRules,
        create_topic: CreateTopic,
        clock: Clock,
        work: OwnWork,
    ) -> None:
        self._calls = calls
        self._replicas = replicas
        self._image = image
        self._settings = settings
        self._rules = rules
        self._create_topic = create_topic
        self._clock = clock
        self._lost_lines = LineBudget()
        self._not_copied_lines = LineBudget()
        self._backlogs: dict[SharePartitionKey, Backlog] = {}
        self._ready: dict[Backlog, None] = {}
        self._wake = work.whenever_woken(self.steps)
        self._batches = 0  # under way
        self._has_stopped = False
        self.counts = DeadLetterCounts()

    # --- what is given up ---

    def wanted(self, group_id: str) -> bool:
        """Return whether the group has a dead-letter topic, and the cluster's share.version knows of these."""
        return bool(self._settings(group_id).dead_letter_topic) and self._rules.is_on

    def give_up(
        self, owner: RecordsOwner, first_offset: int, last_offset: int, delivery_count: int, cause: GiveUpCause
    ) -> None:
        """Copy records to the group's dead-letter topic, and archive them; see `DeadLetters`."""
        backlog = self._backlogs.get(owner.key)
        if backlog is None:
            backlog = self._backlogs[owner.key] = Backlog(self, owner.key, owner.tp)
            self._make_ready(backlog)
        if cause is GiveUpCause.RESUMED:
            backlog.leave_to(owner)
            limit = self._settings(owner.key.group_id).delivery_count_limit
            cause = GiveUpCause.DELIVERY_LIMIT if delivery_count >= limit else GiveUpCause.REJECTED
        message = DELIVERY_LIMIT if cause is GiveUpCause.DELIVERY_LIMIT else REJECTED
        backlog.waiting.append(GivenUp(owner, first_offset, last_offset, delivery_count, message))

    @property
    def under_way(self) -> int:
        """The share partitions of which not all dead letters are written."""
        return len(self._backlogs)

    def stop(self) -> None:
        """Write no dead letters from now on: the broker stops. The next leaders do."""
        self._has_stopped = True

    # --- backlogs ---

    def _make_ready(self, backlog: Backlog) -> None:
        self._ready[backlog] = None
        self._wake()

    def _go_on(self, backlog: Backlog) -> None:
        """Begin the next batch, or forget a backlog of which nothing is left."""
        backlog.drop_done()
        if backlog.waiting and not self._has_stopped:
            self._make_ready(backlog)
        else:
            self._forget(backlog)

    def _forget(self, backlog: Backlog) -> None:
        del self._backlogs[backlog.key]
        self._calls.drop(backlog)

    def steps(self) -> Steps:
        """Begin batches, as many as may be under way, in steps."""
        while self._ready and self._batches < MAX_BATCHES:
            backlog = next(iter(self._ready))
            del self._ready[backlog]
            self._batches += 1
            yield from self._begin(backlog)
            yield 0

    def _end_batch(self) -> None:
        self._batches -= 1
        if self._ready:
            self._wake()

    # --- batches ---

    def _begin(self, backlog: Backlog) -> Steps:
        """Begin a batch."""
        replica = self._leader_of(backlog)
        if replica is None:
            self._forget(backlog)
            self._end_batch()
            return
        settings = self._settings(backlog.key.group_id)
        target = destination(self._image(), self._rules, settings.dead_letter_topic, backlog.source)
        if not isinstance(target, Destination):
            self._end_batch()
            self._without_destination(backlog, target)
            return
        backlog.tp = target.tp
        if target.leader == NO_LEADER:
            self._end_batch()
            self._calls.fail(backlog, self.without_leader(backlog, exists=True))
            return
        made = yield from make_batch(
            backlog,
            replica,
            copies=settings.copies_dead_letters,
            max_bytes=target.max_bytes,
            now_ms=self._clock.wall_ms(),
            not_copied=self._not_copied,
            from_tier=partial(self._from_tier, backlog, replica),
        )
        yield 0
        if not made.pieces:
            self._end_batch()
            self._read_tier(backlog, replica)
        elif made.records:
            self._write(backlog, made)
        else:
            self._written(backlog, made, ErrorCode.NONE, "")

    # --- what only the tier has ---

    def _from_tier(self, backlog: Backlog, replica: Partition, offset: int) -> Buffer | None:
        """Return what the cache has of the tier. In the last try, without it dead letters get headers alone."""
        tiering = self._replicas.tiering
        part = None if tiering is None else tiering.kept_part(replica, offset)
        if part is not None:
            return part.batches(offset, READ_BYTES, replica.high_watermark, min_one=True)[0]
        if backlog.waiting[0].tries < MAX_TRIES - 1:
            return None
        logger.warn_within(
            self._not_copied_lines, self._clock.now_ms(), NOT_COPIED, offset=offset, why="the tier does not give it"
        )
        return b""

    def _read_tier(self, backlog: Backlog, replica: Partition) -> None:
        """Read what the next batch needs of the tier, and then make it."""
        assert self._replicas.tiering is not None, "without a tier all records are in memory"
        try:
            read = self._replicas.tiering.part_at(replica, backlog.waiting[0].next_offset)
        except PartitionError as error:
            self._tier_failed(backlog, str(error))
            return
        if read is None:
            self._tier_failed(backlog, f"it is not known yet what the tier has of {replica.tp}")
        elif read.is_over:
            self._make_ready(backlog)
        else:
            read.listeners[backlog] = partial(self._tier_read, backlog, read)

    def _tier_read(self, backlog: Backlog, read: PartRead) -> None:
        if read.has_failed:
            self._tier_failed(backlog, read.trouble)
        else:
            self._read_again(backlog)

    def _tier_failed(self, backlog: Backlog, why: str) -> None:
        """Try again after the time that a write would wait."""
        if self._failed(backlog, why):
            self._clock.call_later(BACKOFF_MS << backlog.waiting[0].tries, partial(self._read_again, backlog))

    def _read_again(self, backlog: Backlog) -> None:
        if self._backlogs.get(backlog.key) is backlog and not self._has_stopped:
            self._make_ready(backlog)

    def _leader_of(self, backlog: Backlog) -> Partition | None:
        """Return this broker's replica of a backlog's records; None if another leader is to go on with them."""
        replica = self._replicas.lookup.known(backlog.source)
        if self._has_stopped or replica is None or not replica.is_leader or replica.topic_id != backlog.key.topic_id:
            return None
        backlog.drop_other_epochs(replica.leader_epoch)
        return replica if backlog.waiting else None

    def _without_destination(self, backlog: Backlog, target: MissingTopic | NoDestination) -> None:
        if isinstance(target, NoDestination):
            self._give_all_up(backlog, len(backlog.waiting), target.why)
            self._go_on(backlog)
            return
        backlog.tp = TopicPartition(target.name, 0)
        self._create_topic(target.name, partial(self._created, backlog))

    def _created(self, backlog: Backlog, why: str | None) -> None:
        if why is None:
            self._go_on(backlog)
        else:
            why = f"the topic could not be created: {why}"
            self._calls.fail(backlog, Answer(ErrorCode.LEADER_NOT_AVAILABLE, why))

    def _write(self, backlog: Backlog, made: DeadLetterBatch) -> None:
        backlog.made = made
        backlog.batch = build_batch(made.records)
        self.counts.of(backlog.key.group_id).requests += 1
        self._calls.make([backlog])

    def here(self, calls: list[Backlog], answered: Callable[[Backlog, Answer], None]) -> None:
        """Append a batch to this broker's partition."""
        (backlog,) = calls

        def appended(results: Sequence[AppendResult]) -> None:
            (result,) = results
            answered(backlog, Answer(result.error_code, result.error_message or ""))

        self._replicas.append(
            [(backlog.tp, backlog.batch)],
            acks=-1,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            done=appended,
            client=f"dead letters of {backlog.key.group_id}",
        )

    def request(self, calls: Mapping[SharePartitionKey, list[Backlog]]) -> ProduceRequest:
        """Return the request to append a batch."""
        ((backlog,),) = calls.values()
        return produce_request(backlog.tp, backlog.batch, PRODUCE_TIMEOUT_MS)

    def answers(
        self, response: Any, calls: Mapping[SharePartitionKey, list[Backlog]]
    ) -> dict[SharePartitionKey, Answer]:
        """Return the result of the only batch."""
        return dict.fromkeys(calls, result_of(response))

    def ended(self, call: Backlog, answer: Answer) -> None:
        """Note a batch that is written, or that no try can write; else go on, or stop."""
        made, call.made, call.batch = call.made, None, b""
        if made is not None and answer.error_code not in self.passing:
            self._written(call, made, answer.error_code, answer.message)
            return
        if made is not None:
            self._end_batch()
        self._go_on(call)

    def _written(self, backlog: Backlog, made: DeadLetterBatch, error_code: ErrorCode, why: str) -> None:
        """Archive the records of a batch, or make a smaller one."""
        self._end_batch()
        count = len(made.records)
        if error_code == ErrorCode.MESSAGE_TOO_LARGE and count > 1:  # the topic's max.message.bytes is lower by now
            backlog.max_records = count // 2
            self._go_on(backlog)
            return
        backlog.max_records = MAX_RECORDS
        group_count = self.counts.of(backlog.key.group_id)
        if error_code:
            group_count.failures += 1
        elif count:
            group_count.records += count
        made.done()
        for each in backlog.waiting:
            each.tries = 0
        for owner, ranges in made.archived(written=not error_code):
            if error_code:
                self._lost(backlog, ranges, f"{error_code.name}: {why}" if why else error_code.name)
            owner.archived(ranges)
        self._go_on(backlog)

    # --- failures ---

    def passes(self, call: Backlog, answer: Answer) -> bool:
        """Count a try that has failed; what is left is written once more."""
        if answer.error_code not in self.passing:
            return False
        if call.made is not None:
            call.made, call.batch = None, b""
            self._end_batch()
        return bool(self._failed(call, answer.message or answer.error_code.name))

    def _failed(self, backlog: Backlog, why: str) -> bool:
        """Give up what has been tried often enough; return whether anything is left, and may be written."""
        if self._has_stopped:
            return False
        for each in backlog.waiting:
            each.tries += 1
        over = sum(each.tries >= MAX_TRIES for each in backlog.waiting)
        if over:
            self.counts.of(backlog.key.group_id).failures += 1
            why = f"{MAX_TRIES} tries to write to {backlog.tp} have failed, the last one with: {why}"
            self._give_all_up(backlog, over, why)
        return bool(backlog.waiting)

    def delay_ms(self, call: Backlog, pause: Pause) -> int:
        """Return how long the oldest of the records waits."""
        return min(BACKOFF_MS << call.waiting[0].tries, MAX_BACKOFF_MS)

    def keys(self, call: Backlog) -> tuple[BacklogKey, TopicPartition]:
        """Return where the records are, and where their dead letters go."""
        return BacklogKey(call.key.group_id, *call.source), call.tp

    def cause(self, pause: Pause, waited_ms: int) -> DeadLettersNotWritten:
        """Return why the last try failed."""
        backlog: Backlog = next(iter(pause.calls))
        asked = None if backlog.asked == NO_LEADER else backlog.asked
        left = MAX_TRIES - (backlog.waiting[0].tries if backlog.waiting else 0)
        return DeadLettersNotWritten(backlog.tp, backlog.key.group_id, str(backlog.source), asked, backlog.why, left)

    def again(self, call: Backlog) -> None:
        """Make the next batch, of what is given up by then."""
        self._go_on(call)

    def _give_all_up(self, backlog: Backlog, count: int, why: str) -> None:
        """Archive the first parts of a backlog, which have no dead letters."""
        for _ in range(count):
            given_up = backlog.waiting.popleft()
            ranges = [given_up.rest()]
            self._lost(backlog, ranges, why)
            given_up.owner.archived(ranges)

    # --- log lines: few, as consumers decide how many records are given up, and producers how many cannot be copied ---

    def _lost(self, backlog: Backlog, ranges: Sequence[Archived], why: str) -> None:
        """Say which records are archived without dead letters."""
        logger.warn_within(
            self._lost_lines,
            self._clock.now_ms(),
            "records are archived without dead letters",
            group=backlog.key.group_id,
            records=f"{backlog.source} {', '.join(map(_offsets, ranges))}",
            why=why,
        )

    def _not_copied(self, header: BatchHeader, why: str) -> None:
        """Say of which batch the records have dead letters without key and value."""
        now_ms = self._clock.now_ms()
        logger.warn_within(self._not_copied_lines, now_ms, NOT_COPIED, base_offset=header.base_offset, why=why)


def _offsets(each: Archived) -> str:
    return str(each.first_offset) + (f"–{each.last_offset}" if each.last_offset > each.first_offset else "")


def produce_request(tp: TopicPartition, batch: bytes, timeout_ms: int) -> ProduceRequest:
    """Return the request to append a batch with acks=all."""
    partition = PartitionProduceData(index=tp.partition, records=batch)
    topic = TopicProduceData(name=tp.topic, partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=timeout_ms, topic_data=[topic])


def result_of(response: Any) -> Answer:
    """Return the result of the request."""
    results = [partition for topic in response.responses for partition in topic.partition_responses]
    if len(results) != 1:
        return Answer(ErrorCode.UNKNOWN_SERVER_ERROR, f"the answer is about {len(results)} partitions")
    return Answer(ErrorCode.known(results[0].error_code), results[0].error_message or "")
