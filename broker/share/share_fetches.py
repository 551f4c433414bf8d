"""ShareFetch and ShareAcknowledge: the share sessions of one broker's clients, and their acquired records (KIP-932).

A request first acknowledges, then acquires: records that it gives back can be acquired at once. Both APIs end here, and
their files make messages of the results of each partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.replica.partition import PartitionError
from purgatorio.broker.routing.listings import Listings
from purgatorio.broker.routing.request import Session
from purgatorio.broker.share.acknowledging import ShareAcknowledgementBatch
from purgatorio.broker.share.acquiring import AcquireLimits
from purgatorio.broker.share.delayed_share_fetch import DelayedShareFetch, DelayedShareSession, ShareMemberKey
from purgatorio.broker.share.services import ShareLeaderServices
from purgatorio.broker.share.share_metrics import ShareMetrics
from purgatorio.broker.share.share_partition import SharePartition
from purgatorio.broker.share.share_reader import Acquired, ShareSessionReader
from purgatorio.broker.share.share_session import ShareSession, ShareSessionCache
from purgatorio.broker.time.long_work import SLICE, Steps
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey
from purgatorio.purgatory import ActionQueue, LaterChecks, Purgatory

INITIAL_EPOCH: Final = 0
"""The epoch of a request that opens a session."""
FINAL_EPOCH: Final = -1
"""The epoch of a request that ends its session."""
MAX_PARTITIONS: Final = 2_000
"""The most partitions of a session."""
MAX_REFUSED_LATER: Final = 1_000
"""The most requests whose refusal for too many sessions is delayed; further ones are refused at once."""

RUN_COST: Final = 10
"""The cost of acknowledging a run of records, or of looking for a partition (see `LongWork`)."""

Acknowledgements = Mapping[SharePartitionKey, Sequence[ShareAcknowledgementBatch]]


class ShareRequestError(Exception):
    """A share request that is refused as a whole."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


class ShareClient(NamedTuple):
    """The member that sends a request.

    Attributes:
        epoch: the share session epoch.
        connection: on which it came.
        client_id: for observers.
    """

    group_id: str
    member_id: str
    epoch: int
    connection: Session
    client_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareWants:
    """The contents of a share fetch request.

    Attributes:
        added: partitions to fetch from, or to acknowledge, with the names of their topics; in the order of the request.
        forgotten: partitions to fetch from no more.
        renews: whether the request may renew locks (KIP-1222).
        limits: None: the request only acknowledges, and gets no records.
    """

    added: Mapping[SharePartitionKey, TopicPartition]
    forgotten: Iterable[SharePartitionKey]
    acknowledgements: Acknowledgements
    renews: bool
    max_wait_ms: int
    min_bytes: int
    limits: AcquireLimits | None


@dataclass(slots=True)
class ShareResult:
    """The result for one partition of an answer.

    Attributes:
        tp: the partition with its topic's name.
        error: why nothing could be acquired.
        acknowledge_error: why its acknowledgements failed; None: they count, or there were none.
    """

    key: SharePartitionKey
    tp: TopicPartition
    error: PartitionError | None = None
    acknowledge_error: PartitionError | None = None
    acquired: Acquired | None = None


Results = dict[SharePartitionKey, ShareResult]
Answer = Callable[[Results, ShareRequestError | None], None]
"""Receives what the answer says of each partition, or why the request is refused; called once."""


@dataclass(slots=True)
class _Acknowledging:
    """Acknowledgements that are being written.

    Attributes:
        left: those that are still to be looked at.
        missing: how many partitions have no result yet.
    """

    session: ShareSession
    left: Iterator[tuple[SharePartitionKey, Sequence[ShareAcknowledgementBatch]]]
    renews: bool
    results: Results
    then: Callable[[], None]
    missing: int = 1

    def settled(self, result: ShareResult, error_code: ErrorCode) -> None:
        """Take the result of one partition."""
        if error_code:
            result.acknowledge_error = PartitionError(error_code, f"{result.key}: {error_code.name}")
        self.end_one()

    def end_one(self) -> None:
        """Go on once all have a result."""
        self.missing -= 1
        if not self.missing:
            self.then()


@dataclass(slots=True)
class _Fetch:
    """A fetch whose acknowledgements have their results, while it waits for records."""

    session: ShareSession
    limits: AcquireLimits
    results: Results
    answer: Answer
    since_ms: int
    reader: ShareSessionReader
    metrics: ShareMetrics

    def acquire(self) -> None:
        """Acquire records, and answer with the partitions that have news, and those that no answer named yet."""
        session, results = self.session, self.results
        if session.is_open:
            for partition, acquired, error in self.reader.acquire(session, self.limits):
                if acquired.records or error is not None:
                    result = results.setdefault(partition.key, ShareResult(partition.key, partition.tp))
                    result.acquired, result.error = acquired, error
            self._count()
            for partition in session.unnamed:
                results.setdefault(partition.key, ShareResult(partition.key, partition.tp))
            session.unnamed.clear()
        self.answer(results, None)

    def failed(self) -> None:
        """Answer with UNKNOWN_SERVER_ERROR."""
        self.answer({}, ShareRequestError(ErrorCode.UNKNOWN_SERVER_ERROR, "the records could not be acquired"))

    def expired(self) -> None:
        """Count that its time was over before there was enough."""
        self.metrics.expired()

    def _count(self) -> None:
        """Count what it got from its partitions."""
        session, results, metrics = self.session, self.results, self.metrics
        got = [(each.tp, each.acquired) for each in results.values() if each.acquired and each.acquired.records]
        for tp, acquired in got:
            metrics.observer.share_fetched(tp.topic, sum(len(part) for part in acquired.parts))
        failed = dict.fromkeys(each.tp.topic for each in results.values() if each.error is not None)
        for topic in failed.keys() & session.topics.keys():
            metrics.observer.share_fetch_failed(topic)
        if got:
            waited_ms, of_count = metrics.now_ms() - self.since_ms, len(session.partitions)
            metrics.acquired(session.group_id, waited_ms=waited_ms, partition_count=len(got), of_count=of_count)


class ShareFetches:
    """The share sessions of one broker, and the requests in them.

    Args:
        reader: looks at the partitions of sessions, and acquires their records.
        actions: the queue of events that are handled when the outermost call returns.
        metrics: counts them.
        later: checks a fetch in a later turn, whose look has not ended.

    Attributes:
        shares: the share partitions that this broker leads.
        sessions: the sessions of its members.
    """

    def __init__(
        self,
        services: ShareLeaderServices,
        *,
        sessions: ShareSessionCache,
        reader: ShareSessionReader,
        actions: ActionQueue,
        metrics: ShareMetrics,
        later: LaterChecks,
    ) -> None:
        self.shares = reader.shares
        self.sessions = sessions
        self.purgatory: Purgatory[DelayedShareFetch | DelayedShareSession] = services.purgatory
        self._image = services.image
        self._reader = reader
        self._actions = actions
        self._metrics = metrics
        self._clock = services.clock
        self._listings = Listings(services.work)
        self._later = later
        self._refused_later = 0

    # --- requests ---

    def fetch(self, client: ShareClient, wants: ShareWants, answer: Answer) -> None:
        """Acknowledge, then acquire; `answer` is called when there is enough, or the time is over.

        Raises:
            ShareRequestError: INVALID_REQUEST, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH or
                SHARE_SESSION_LIMIT_REACHED.
        """
        if client.epoch == INITIAL_EPOCH:
            if wants.acknowledgements:
                message = "a request that opens a share session has nothing to acknowledge"
                raise ShareRequestError(ErrorCode.INVALID_REQUEST, message)
            why = self._refusal(client, client.connection, len(wants.added))
            if why is not None:
                self._refuse_later(client, wants.max_wait_ms, why, answer)
                return
            session = self.sessions.open(client.group_id, client.member_id, client.connection)
        else:
            session = self._session_of(client)
        if client.epoch != FINAL_EPOCH:
            self._change(session, client, wants)
        results: Results = {}
        goes_on = partial(self._acknowledged, session, client, wants, results, answer)
        self._acknowledge(session, client.connection, wants.acknowledgements, results, goes_on, renews=wants.renews)

    def acknowledge(
        self, client: ShareClient, acknowledgements: Acknowledgements, answer: Answer, *, renews: bool
    ) -> None:
        """Acknowledge; `answer` is called when the results are committed.

        Args:
            renews: whether the request may renew locks (KIP-1222).

        Raises:
            ShareRequestError: SHARE_SESSION_NOT_FOUND or INVALID_SHARE_SESSION_EPOCH.
        """
        if client.epoch == INITIAL_EPOCH:
            message = "records are acknowledged in a share session that is open already"
            raise ShareRequestError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, message)
        session = self._session_of(client)
        if client.epoch != FINAL_EPOCH:
            session.advance()
        results: Results = {}

        def acknowledged() -> None:
            if client.epoch == FINAL_EPOCH:
                self.sessions.close(session)
            answer(results, None)

        self._acknowledge(session, client.connection, acknowledgements, results, acknowledged, renews=renews)

    def has_room(self, connection: Session) -> None:
        """Check the fetches of a connection in a later turn: its members had too many locks, and may acquire again."""
        self._clock.call_later(0, partial(self._check_fetches, connection))

    def _check_fetches(self, connection: Session) -> None:
        for session in self.sessions.of_connection(connection):
            if session.operation is not None:
                self.purgatory.check(session.operation, "acquisition locks", session.group_id)

    # --- sessions ---

    def _session_of(self, client: ShareClient) -> ShareSession:
        session = self.sessions.find(client.group_id, client.member_id)
        if session is None:
            message = f"member {client.member_id} of group {client.group_id} has no share session here"
            raise ShareRequestError(ErrorCode.SHARE_SESSION_NOT_FOUND, message)
        if client.epoch not in (FINAL_EPOCH, session.epoch):
            message = f"the share session is at epoch {session.epoch}, not {client.epoch}"
            raise ShareRequestError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, message)
        return session

    def _refuse_later(self, client: ShareClient, max_wait_ms: int, why: str, answer: Answer) -> None:
        """Refuse a request for one session too many, but only when its time is over.

        Raises:
            ShareRequestError: SHARE_SESSION_LIMIT_REACHED: too many requests wait for that.
        """
        error = ShareRequestError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, why)
        if self._refused_later >= MAX_REFUSED_LATER:
            raise error
        self._refused_later += 1

        def refuse() -> None:
            self._refused_later -= 1
            answer({}, error)

        operation = DelayedShareSession(max_wait_ms, why, client.client_id, refuse)
        self.purgatory.try_complete_else_watch(operation, (ShareMemberKey(client.group_id, client.member_id),))

    def _refusal(self, client: ShareClient, connection: Session, partition_count: int) -> str | None:
        """Return why a member may have no session of so many partitions on a connection now; None: it may.

        Raises:
            ShareRequestError: INVALID_REQUEST: no session has so many.
        """
        if partition_count > MAX_PARTITIONS:
            message = f"a share session has at most {MAX_PARTITIONS} partitions"
            raise ShareRequestError(ErrorCode.INVALID_REQUEST, message)
        return self.sessions.refusal(client.group_id, client.member_id, connection, partition_count)

    def _change(self, session: ShareSession, client: ShareClient, wants: ShareWants) -> None:
        """Take the partitions that a request adds and forgets.

        Raises:
            ShareRequestError: INVALID_REQUEST or SHARE_SESSION_LIMIT_REACHED: they are too many; the session is as
                before.
        """
        more = sum(key not in session.partitions for key in wants.added)
        if more and client.epoch != INITIAL_EPOCH:
            why = self._refusal(client, session.connection, len(session.partitions) + more)
            if why is not None:
                raise ShareRequestError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, why)
        for key, tp in wants.added.items():
            session.add(key, tp)
        for key in wants.forgotten:
            forgotten = session.remove(key)
            if forgotten is not None:
                self._reader.release(forgotten)
        self.sessions.weigh(session)
        if client.epoch != INITIAL_EPOCH:
            session.advance()

    # --- acknowledging ---

    def _acknowledge(
        self,
        session: ShareSession,
        connection: Session,
        acknowledgements: Acknowledgements,
        results: Results,
        then: Callable[[], None],
        *,
        renews: bool,
    ) -> None:
        """Acknowledge at each partition; go on when all have a result.

        Much of it takes several turns of the event loop; meanwhile the connection of the request is muted.
        """
        under_way = _Acknowledging(session, iter(acknowledgements.items()), renews, results, then)
        self._listings.begin(self._acknowledging(under_way), connection)

    def _acknowledging(self, under_way: _Acknowledging) -> Steps:
        while self._acknowledge_some(under_way):
            yield SLICE
        under_way.end_one()

    def _acknowledge_some(self, under_way: _Acknowledging) -> bool:
        """Acknowledge at partitions, as many as a step may have; return whether others are left."""
        work = 0
        session = under_way.session
        with self._actions:
            for key, batches in under_way.left:
                result = under_way.results[key] = ShareResult(key, self._name(session, key))
                under_way.missing += 1
                work += 1
                try:
                    share = self._acknowledged_share(key, result.tp)
                except PartitionError as error:
                    result.acknowledge_error = error
                    if result.tp.topic in self._image().topics:
                        self._metrics.acknowledgements(result.tp, batches, failed=True)
                    under_way.end_one()
                else:
                    work += share.work_of(batches)
                    settled = partial(self._settled, under_way, result, batches)
                    share.acknowledge(session.member_id, batches, renews=under_way.renews, done=settled)
                if RUN_COST * work >= SLICE:
                    return True
        return False

    def _settled(
        self,
        under_way: _Acknowledging,
        result: ShareResult,
        said: Sequence[ShareAcknowledgementBatch],
        error_code: ErrorCode,
    ) -> None:
        self._metrics.acknowledgements(result.tp, said, failed=bool(error_code))
        under_way.settled(result, error_code)

    def _acknowledged_share(self, key: SharePartitionKey, tp: TopicPartition) -> SharePartition:
        """Return the share partition whose records are acknowledged.

        Raises:
            PartitionError: UNKNOWN_TOPIC_ID if the topic was deleted, too; NOT_LEADER_OR_FOLLOWER;
                UNKNOWN_TOPIC_OR_PARTITION also if the group has nothing acquired here.
        """
        if self._image().topic_by_id(key.topic_id) is None:
            raise PartitionError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic any more of the id of {tp}")
        self._reader.check_leads(key, tp)
        share = self.shares.known(key)
        if share is None:
            raise PartitionError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the group has no records of {tp} acquired here"
            )
        return share

    def _name(self, session: ShareSession, key: SharePartitionKey) -> TopicPartition:
        partition = session.partitions.get(key)
        return partition.tp if partition is not None else named(self._image(), key)

    # --- acquiring ---

    def _acknowledged(
        self, session: ShareSession, client: ShareClient, wants: ShareWants, results: Results, answer: Answer
    ) -> None:
        """Go on with a fetch whose acknowledgements have their results."""
        if client.epoch == FINAL_EPOCH:
            self.sessions.close(session)
        if client.epoch == FINAL_EPOCH or wants.limits is None or not session.is_open:
            answer(results, None)
            return
        if session.operation is not None:  # the client has sent this request before it had the answer to the one before
            session.operation.force_complete()
        for partition in session.worth:
            if partition.error is not None:
                session.marked[partition] = None
        self._metrics.observer.share_fetch_started(session.topics)
        now_ms = self._metrics.now_ms()
        operation = DelayedShareFetch(
            session,
            _Fetch(session, wants.limits, results, answer, now_ms, self._reader, self._metrics),
            reader=self._reader,
            later=self._later,
            max_wait_ms=wants.max_wait_ms,
            min_bytes=wants.min_bytes,
            client=client.client_id,
        )
        session.operation = operation
        self.purgatory.try_complete_else_watch(operation, operation.watch_keys())


def named(image: ClusterImage, key: SharePartitionKey) -> TopicPartition:
    """Return a partition with its topic's name; of an unknown topic, with its id in place of it."""
    topic = image.topic_by_id(key.topic_id)
    return TopicPartition(key.topic_id.hex() if topic is None else topic.name, key.partition)
