"""Causes of waits: each with its sentence, and the actors for which it waits.

A delayed operation returns its own from `causes`; none is made before an observer asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

from purgatorio.broker.causes.why import DescribeFate, FindAbsent, WaitPart, Why
from purgatorio.broker.causes.words import and_more, bytes_per_second, listed, seconds, shortened
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.late import dataclass


@dataclass(frozen=True, slots=True)
class FollowerBehind(Why):
    """An in-sync follower does not have the records yet.

    Attributes:
        broker_id: the follower.
        at_offset: its log end offset; -1: it has not fetched yet.
        wanted_offset: the log end offset that ends the wait.
    """

    tp: TopicPartition
    broker_id: int
    at_offset: int
    wanted_offset: int

    def __str__(self) -> str:
        if self.at_offset < 0:
            return f"broker {self.broker_id} has not fetched yet"
        return f"broker {self.broker_id} is at {self.at_offset} of {self.wanted_offset}"

    def parts(self, absent: FindAbsent) -> Iterator[WaitPart]:
        yield self.part(self.broker_id, (self.broker_id,), behind=self.wanted_offset - max(0, self.at_offset))


@dataclass(frozen=True, slots=True)
class LogStartBehind(Why):
    """An in-sync replica has not deleted the records yet.

    Attributes:
        broker_id: the replica's broker.
        at_offset: its log start offset; -1: it has not fetched yet.
        wanted_offset: the log start offset that ends the wait.
    """

    tp: TopicPartition
    broker_id: int
    at_offset: int
    wanted_offset: int

    def __str__(self) -> str:
        if self.at_offset < 0:
            return f"broker {self.broker_id} has not fetched yet"
        return f"broker {self.broker_id} starts at {self.at_offset} of {self.wanted_offset}"

    def parts(self, absent: FindAbsent) -> Iterator[WaitPart]:
        yield self.part(self.broker_id, (self.broker_id,), behind=self.wanted_offset - max(0, self.at_offset))


@dataclass(frozen=True, slots=True)
class TooFewInSync(Why):
    """A partition has fewer in-sync replicas than min.insync.replicas."""

    tp: TopicPartition
    in_sync_count: int
    needed_count: int

    def __str__(self) -> str:
        return f"{self.in_sync_count} in-sync replicas, {self.needed_count} needed"

    def parts(self, absent: FindAbsent) -> Iterator[WaitPart]:
        missing = absent(self.tp)
        yield self.part(", ".join(map(str, missing)), missing)


@dataclass(frozen=True, slots=True)
class OpenTransaction(Why):
    """A transaction that is open on a partition keeps consumers under read_committed from reading on.

    Attributes:
        transactional_id: "" if this broker does not know it.
        first_offset: where the transaction begins, which is the last stable offset.
        open_ms: for how long it has been open; None: it has ended, and waits for its marker to be committed.
    """

    is_holding = True

    tp: TopicPartition
    transactional_id: str
    producer_id: int
    first_offset: int
    open_ms: int | None

    def sentence(self, fate: DescribeFate) -> str:
        owner = f"`{shortened(self.transactional_id)}`" if self.transactional_id else f"producer {self.producer_id}"
        if self.open_ms is None:
            return f"waits for the end of the transaction of {owner} to be committed"
        ends = fate(self)
        return f"waits for the transaction of {owner} (open {self.open_ms / 1000:.1f} s{ends and f', {ends}'})"

    def parts(self, absent: FindAbsent) -> Iterator[WaitPart]:
        yield self.part(self.transactional_id or self.producer_id)


@dataclass(frozen=True, slots=True)
class ReplicationThrottled(Why):
    """A quota on replication withholds records from a follower that is not in sync.

    Attributes:
        bytes_per_second: the rate, which is above the limit.
    """

    is_holding = True

    tp: TopicPartition
    bytes_per_second: float
    limit: int

    def __str__(self) -> str:
        rate = f"{bytes_per_second(self.bytes_per_second)} of {bytes_per_second(self.limit)}"
        return f"waits, out of sync: replication of {rate}"


@dataclass(frozen=True, slots=True)
class TierThrottled(Why):
    """A quota on reads of the tier keeps records from a consumer that only the tier has (KIP-956).

    Attributes:
        bytes_per_second: the rate, which is above the limit.
    """

    tp: TopicPartition
    bytes_per_second: float
    limit: int

    def __str__(self) -> str:
        rate = f"{bytes_per_second(self.bytes_per_second)} of {bytes_per_second(self.limit)}"
        return f"waits for the quota on reads of the tier: {rate}"

    def parts(self, absent: FindAbsent) -> Iterator[WaitPart]:
        yield self.part("tier", tps=(self.tp,))


@dataclass(frozen=True, slots=True)
class FetchPosition:
    """Where a fetch reads on a partition, and what keeps it from reading on, if more than that there is no record."""

    tp: TopicPartition
    offset: int
    held_back_by: OpenTransaction | ReplicationThrottled | TierThrottled | None

    def sentence(self, fate: DescribeFate) -> str:
        """Return the place, and what holds the fetch back there."""
        place = f"{self.tp} from {self.offset}"
        return place if self.held_back_by is None else f"{place} {self.held_back_by.sentence(fate)}"


@dataclass(frozen=True, slots=True)
class NoRecordsYet(Why):
    """There are fewer bytes to read than a fetch wants.

    Attributes:
        follower_id: the follower that fetches; None: a consumer does.
        positions: the first of its partitions.
        more_count: how many partitions it has beside these.
    """

    is_ordinary = True

    follower_id: int | None
    available_bytes: int
    wanted_bytes: int
    positions: tuple[FetchPosition, ...]
    more_count: int

    def sentence(self, fate: DescribeFate) -> str:
        reader = "consumer" if self.follower_id is None else f"follower {self.follower_id}"
        places = ", ".join(each.sentence(fate) for each in self.positions)
        return f"{reader} has {self.available_bytes} of {self.wanted_bytes} bytes: {places}{and_more(self.more_count)}"

    def parts(self, absent: FindAbsent) -> Iterator[WaitPart]:
        """Yield what keeps the fetch from reading on; if nothing does, that there are no records, or too few."""
        follower = () if self.follower_id is None else (self.follower_id,)
        held = [each.held_back_by for each in self.positions if each.held_back_by is not None]
        for held_by in held:
            if isinstance(held_by, (OpenTransaction, TierThrottled)):
                yield from held_by.parts(absent)
            else:
                yield held_by.part("consumer" if self.follower_id is None else self.follower_id, follower)
        if not held:
            part = self.part("follower" if follower else "consumer", tps=[each.tp for each in self.positions])
            yield part.for_more_bytes(self.available_bytes, self.wanted_bytes)


# --- the tier ---


@dataclass(frozen=True, slots=True)
class TierRead(Why):
    """A fetch waits for records that only the tier has.

    Attributes:
        of: the partition.
        start_offset: the first offset that is read.
        end_offset: the offset after the last one.
        location: where the tier is.
        waited_ms: for how long the read has been under way.
        tries: the times that the store was asked; 0: all readers are busy.
        trouble: why the last try came to nothing; "": none has.
        is_joined: another fetch has begun the read.
        held_by: the fault rule that holds it; None: none does.
    """

    of: TopicPartition
    start_offset: int
    end_offset: int
    location: str
    waited_ms: int
    tries: int
    trouble: str
    is_joined: bool = False
    held_by: int | None = None

    def __str__(self) -> str:
        what = f"waits for {self.of} [{self.start_offset}, {self.end_offset}) to come back from {self.location}"
        said = f"{what}: {said_of_read(self.waited_ms, self.tries, self.trouble, self.held_by)}"
        return f"{said}; it joins another fetch's read" if self.is_joined else said

    def parts(self, absent: FindAbsent) -> Iterator[WaitPart]:
        yield self.part(self.location, tps=(self.of,))


@dataclass(frozen=True, slots=True)
class TierNotListed(Why):
    """It is not known yet what the tier has of a partition.

    Attributes:
        of: the partition.
        location: where the tier is.
        trouble: why the store has not said; "": it is asked for the first time.
    """

    of: TopicPartition
    location: str
    trouble: str

    def __str__(self) -> str:
        said = f"waits to hear what {self.location} has of {self.of}"
        return f"{said} ({shortened(self.trouble)})" if self.trouble else said

    def parts(self, absent: FindAbsent) -> Iterator[WaitPart]:
        yield self.part(self.location, tps=(self.of,))


@dataclass(frozen=True, slots=True)
class TierLookUp(Why):
    """The offset of a timestamp is looked up in what only the tier has.

    Attributes:
        of: the partition.
        timestamp_ms: the timestamp.
        start_offset: where the look-up goes on.
        end_offset: where the records in memory begin.
        location: where the tier is.
        trouble: why the last try to read came to nothing; "": none has.
    """

    of: TopicPartition
    timestamp_ms: int
    start_offset: int
    end_offset: int
    location: str
    trouble: str

    def __str__(self) -> str:
        place = f"{self.of} [{self.start_offset}, {self.end_offset}) in {self.location}"
        said = f"offset for {_moment(self.timestamp_ms)} waits for the look-up in {place}"
        return f"{said} ({shortened(self.trouble)})" if self.trouble else said

    def parts(self, absent: FindAbsent) -> Iterator[WaitPart]:
        yield self.part(self.location, tps=(self.of,))


def said_of_read(waited_ms: int, tries: int, trouble: str, held_by: int | None) -> str:
    """Return how it stands with a read of the tier: "340 ms, third try (503)"; see `TierRead`."""
    said = f"{waited_ms} ms" if waited_ms < 1_000 else seconds(waited_ms)
    if not tries:
        return f"{said}, all readers are busy"
    if trouble:
        said += f", {_ordinal(tries)} try ({shortened(trouble)})"
    return said if held_by is None else f"{said}, held by rule {held_by}"


def _moment(timestamp_ms: int) -> str:
    """Return a timestamp in words: "2026-11-28 12:00 UTC", or the number of one that no calendar has."""
    from datetime import UTC, datetime  # few clusters say a timestamp

    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC).replace(tzinfo=None)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    unit = "milliseconds" if timestamp_ms % 1000 else "seconds" if timestamp_ms % 60_000 else "minutes"
    return f"{moment.isoformat(' ', unit)} UTC"


def _ordinal(number: int) -> str:
    words = ("first", "second", "third", "fourth", "fifth")
    return words[number - 1] if number <= len(words) else f"{number}th"


# --- share groups ---


@dataclass(frozen=True, slots=True)
class ShareStateLoading(Why):
    """The leader has not read the state of a share partition yet."""

    def __str__(self) -> str:
        return "until the leader has read the group's state"


@dataclass(frozen=True, slots=True)
class RecordsLocked(Why):
    """Members of the share group have as many records of a partition as they may have at a time.

    Attributes:
        locked_count: the records that are acquired, or between the first and the last of these.
    """

    locked_count: int

    def __str__(self) -> str:
        return f"as members have {self.locked_count} records, the most at a time"


@dataclass(frozen=True, slots=True)
class SharePosition:
    """Where a share group reads on a partition.

    Attributes:
        offset: the next offset to acquire; -1: the state is being loaded.
        held_back_by: what keeps the group from reading on, if more than that there is no record.
    """

    tp: TopicPartition
    offset: int
    held_back_by: ShareStateLoading | RecordsLocked | OpenTransaction | TierRead | TierNotListed | TierThrottled | None

    def sentence(self, fate: DescribeFate) -> str:
        """Return the place, and what holds the group back there."""
        held_back_by = self.held_back_by
        if isinstance(held_back_by, ShareStateLoading):
            return f"{self.tp} {held_back_by}"
        place = f"{self.tp} from {self.offset}"
        if isinstance(held_back_by, RecordsLocked):
            return f"{place}, {held_back_by}"
        return place if held_back_by is None else f"{place} {held_back_by.sentence(fate)}"


@dataclass(frozen=True, slots=True)
class NoShareRecordsYet(Why):
    """There are fewer bytes to acquire than a member of a share group wants.

    Attributes:
        positions: the first of its partitions.
        more_count: how many partitions it has beside these.
    """

    is_ordinary = True

    group_id: str
    available_bytes: int
    wanted_bytes: int
    positions: tuple[SharePosition, ...]
    more_count: int

    def sentence(self, fate: DescribeFate) -> str:
        places = ", ".join(each.sentence(fate) for each in self.positions)
        group = f"group `{shortened(self.group_id)}`"
        return f"{group} has {self.available_bytes} of {self.wanted_bytes} bytes: {places}{and_more(self.more_count)}"

    def parts(self, absent: FindAbsent) -> Iterator[WaitPart]:
        """Yield what keeps the member from records; if nothing does, that there are none, or too few."""
        is_held = False
        for position in self.positions:
            held_by = position.held_back_by
            if isinstance(held_by, (OpenTransaction, TierRead, TierNotListed, TierThrottled)):
                is_held = True
                yield from held_by.parts(absent)
            elif isinstance(held_by, RecordsLocked):
                is_held = True
                yield held_by.part(self.group_id, tps=(position.tp,))._replace(cause=self)
        if not is_held:
            part = self.part(self.group_id, tps=[each.tp for each in self.positions])
            yield part.for_more_bytes(self.available_bytes, self.wanted_bytes)


@dataclass(frozen=True, slots=True)
class NoShareSessionLeft(Why):
    """The broker's share sessions, or those of the connection, are as many or as large as they may be."""

    why: str

    def __str__(self) -> str:
        return self.why


# --- changes of the cluster ---


@dataclass(frozen=True, slots=True)
class NotDecided(Why):
    """The metadata store has not committed a change of the cluster yet."""

    def __str__(self) -> str:
        return "the metadata store has not decided yet"


@dataclass(frozen=True, slots=True)
class NoLeader(Why):
    """A new partition has no leader yet."""

    tp: TopicPartition

    def __str__(self) -> str:
        return "no leader yet"


@dataclass(frozen=True, slots=True)
class NotLeading(Why):
    """A broker was elected, and this broker's image does not show it as the leader yet."""

    tp: TopicPartition
    broker_id: int

    def __str__(self) -> str:
        return f"broker {self.broker_id} does not lead yet"

    def parts(self, absent: FindAbsent) -> Iterator[WaitPart]:
        yield self.part(self.broker_id, (self.broker_id,))


# --- groups ---


@dataclass(frozen=True, slots=True)
class AwaitedMember:
    """A member of a group, with its name for people: an instance id, a client id, or the member id again."""

    member_id: str
    name: str


def _names(members: Sequence[AwaitedMember], more_count: int) -> str:
    names = [shortened(member.name) for member in members]
    return f"member{'s' * (len(names) + more_count > 1)} {listed(names, more_count)}"


@dataclass(frozen=True, slots=True)
class MembersToJoin(Why):
    """A rebalance waits for members to join.

    Attributes:
        members: the first members that have not joined again.
        more_count: how many there are beside these.
        new_count: the member ids that were given out and have not joined yet.
    """

    group_id: str
    members: tuple[AwaitedMember, ...]
    more_count: int
    new_count: int

    def __str__(self) -> str:
        awaited = [_names(self.members, self.more_count)] if self.members else []
        if self.new_count:
            awaited.append(f"{self.new_count} new member id{'s' * (self.new_count > 1)} to join")
        return f"rebalance of {shortened(self.group_id)} waits for {' and for '.join(awaited)}"


@dataclass(frozen=True, slots=True)
class FirstMembersToJoin(Why):
    """The first rebalance of a group waits a fixed time for more members."""

    group_id: str
    joined_count: int

    def __str__(self) -> str:
        return (
            f"first rebalance of {shortened(self.group_id)} waits for more members; {self.joined_count} joined so far"
        )


@dataclass(frozen=True, slots=True)
class MembersToSync(Why):
    """A generation waits for members to ask for their assignment.

    Attributes:
        leader: the member that makes the assignment, if it has not sent it.
        members: the first members that have not asked.
        more_count: how many there are beside these.
    """

    group_id: str
    generation: int
    leader: AwaitedMember | None
    members: tuple[AwaitedMember, ...]
    more_count: int

    def __str__(self) -> str:
        leader = self.leader
        awaited = (
            _names(self.members, self.more_count)
            if leader is None
            else f"the assignment of leader {shortened(leader.name)}"
        )
        return f"generation {self.generation} of {shortened(self.group_id)} waits for {awaited}"


@dataclass(frozen=True, slots=True)
class NoHeartbeat(Why):
    """A member has not shown since the begin of its session time that it lives."""

    group_id: str
    member_id: str

    def __str__(self) -> str:
        return f"no heartbeat of member {shortened(self.member_id)} of {shortened(self.group_id)} yet"


@dataclass(frozen=True, slots=True)
class NotInitialized(Why):
    """Share partitions of a group have no state yet, without which they are assigned to no member.

    Attributes:
        partitions: the first of them.
        more_count: how many there are beside these.
        error: why the last attempt failed; "" while the share coordinators are asked.
    """

    group_id: str
    partitions: tuple[TopicPartition, ...]
    more_count: int
    error: str

    def __str__(self) -> str:
        partitions = ", ".join(map(str, self.partitions)) + and_more(self.more_count)
        state = f"could not initialize its state ({self.error}), and will be asked again" if self.error else ""
        state = state or "has not initialized its state yet"
        return f"{shortened(self.group_id)} waits for {partitions}: the share coordinator {state}"


@dataclass(frozen=True, slots=True)
class NotAcknowledged(Why):
    """A member of a share group has acquired records, and has not acknowledged all of them yet.

    Attributes:
        first_offset, last_offset: the records that it acquired together.
        held_count: how many of them it has not acknowledged.
        delivery_count: how often they were delivered, this time included.
    """

    group_id: str
    member_id: str
    tp: TopicPartition
    first_offset: int
    last_offset: int
    held_count: int
    delivery_count: int

    def __str__(self) -> str:
        count = self.last_offset - self.first_offset + 1
        offsets = str(self.first_offset) if count == 1 else f"{self.first_offset} to {self.last_offset}"
        said = [] if self.held_count == count else [f"{self.held_count} of {count} left"]
        if self.delivery_count > 1:
            said.append(f"delivery {self.delivery_count}")
        details = f" ({', '.join(said)})" if said else ""
        return (
            f"member {shortened(self.member_id)} of {shortened(self.group_id)} has not acknowledged {offsets}{details}"
        )


# --- transactions ---


@dataclass(frozen=True, slots=True)
class TransactionNotConfirmed(Why):
    """The coordinator of a transaction has not confirmed that it includes some partitions.

    Attributes:
        partitions: the first of them.
        more_count: how many there are beside these.
    """

    transactional_id: str
    partitions: tuple[TopicPartition, ...]
    more_count: int = 0

    def __str__(self) -> str:
        partitions = ", ".join(map(str, self.partitions)) + and_more(self.more_count)
        owner = f"`{shortened(self.transactional_id)}`"
        return f"the coordinator of {owner} has not confirmed that its transaction includes {partitions}"


@dataclass(frozen=True, slots=True)
class TransactionNotEnded(Why):
    """A transaction is open until its producer ends it."""

    transactional_id: str
    partition_count: int

    def __str__(self) -> str:
        partitions = "1 partition" if self.partition_count == 1 else f"{self.partition_count} partitions"
        return f"the transaction of {shortened(self.transactional_id)} is open, with {partitions}"


@dataclass(frozen=True, slots=True)
class StateNotCommitted(Why):
    """The replicas do not have the next state of a transaction yet."""

    transactional_id: str
    state: str

    def __str__(self) -> str:
        return f"the transaction of {shortened(self.transactional_id)} becomes {self.state} when the replicas have it"


@dataclass(frozen=True, slots=True)
class UnwrittenMarker:
    """A partition has no end marker of a transaction yet.

    Attributes:
        leader_id: the broker that shall write it; None: the partition has no leader.
        error: why it was not written at the last attempt; "" before that.
    """

    tp: TopicPartition
    leader_id: int | None
    error: str

    def __str__(self) -> str:
        leader = "no leader" if self.leader_id is None else f"broker {self.leader_id}"
        return f"{self.tp} ({leader}{self.error and f': {self.error}'})"


@dataclass(frozen=True, slots=True)
class MarkersMissing(Why):
    """A transaction that is decided waits for its end markers.

    Attributes:
        markers: the first of them.
        more_count: how many there are beside these.
    """

    transactional_id: str
    markers: tuple[UnwrittenMarker, ...]
    more_count: int

    def __str__(self) -> str:
        markers = ", ".join(map(str, self.markers)) + and_more(self.more_count)
        named = f"the markers of {markers}" if markers else "its markers"
        return f"the transaction of {shortened(self.transactional_id)} waits for {named}"

    def parts(self, absent: FindAbsent) -> Iterator[WaitPart]:
        leaders = dict.fromkeys(each.leader_id for each in self.markers if each.leader_id is not None)
        yield self.part(self.transactional_id, tuple(leaders), [each.tp for each in self.markers])


# --- calls of other brokers ---

_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")


@dataclass(frozen=True, slots=True)
class CallFailed(Why):
    """A call to the leader of a partition failed, and will be made again.

    Attributes:
        tp: the partition, whose leader is asked.
        call: the call, in words.
        broker_id: the broker that was asked; None: the partition has no leader now.
        error: why it failed.
        tries: how often it was made.
        waited_ms: the time since it failed first.
    """

    tp: TopicPartition
    call: str
    broker_id: int | None
    error: str
    tries: int
    waited_ms: int

    def __str__(self) -> str:
        leader = "a leader" if self.broker_id is None else f"broker {self.broker_id}, which leads it"
        nth = f"{_ORDINALS[self.tries - 1]} try" if 0 < self.tries <= len(_ORDINALS) else f"try {self.tries}"
        return f"{self.call} waits for {leader}: {self.waited_ms} ms, {nth}, {self.error}"

    def parts(self, absent: FindAbsent) -> Iterator[WaitPart]:
        asked = () if self.broker_id is None else (self.broker_id,)
        yield self.part("" if self.broker_id is None else self.broker_id, asked)


@dataclass(frozen=True, slots=True)
class ShareCoordinatorFailed(Why):
    """A call to a share coordinator failed, and will be made again.

    Attributes:
        tp: the partition that the group consumes; the topic's id in place of its name if the topic is gone.
        verb: what the call does with the group's state.
        broker_id: the broker that was asked; None: the state has no coordinator now.
        error: why it failed.
        retries_left: how often it will be made again if it goes on to fail, beside quick retries.
    """

    tp: TopicPartition
    group_id: str
    verb: str
    broker_id: int | None
    error: str
    retries_left: int

    def __str__(self) -> str:
        call = f"the call to {self.verb} the state of share group {shortened(self.group_id)}"
        if self.broker_id is None:
            return f"{call} has no broker to go to"
        return f"{call} failed at broker {self.broker_id} ({self.error}), with {self.retries_left} retries left"

    def parts(self, absent: FindAbsent) -> Iterator[WaitPart]:
        asked = () if self.broker_id is None else (self.broker_id,)
        yield self.part("" if self.broker_id is None else self.broker_id, asked)


@dataclass(frozen=True, slots=True)
class DeadLettersNotWritten(Why):
    """The dead letters of a share group could not be written, and will be written once more.

    Attributes:
        tp: the partition of the dead-letter topic; its first one if the topic does not exist yet.
        source: the partition whose records are given up, as ``orders-0``.
        broker_id: the leader that was asked; None: there was none.
        error: why it failed.
        tries_left: how often they will be written if that goes on to fail; then they are archived without.
    """

    tp: TopicPartition
    group_id: str
    source: str
    broker_id: int | None
    error: str
    tries_left: int

    def __str__(self) -> str:
        letters = f"the dead letters of share group {shortened(self.group_id)} from {self.source}"
        at = "" if self.broker_id is None else f" by broker {self.broker_id}"
        return f"{letters} could not be written{at} ({self.error}), with {self.tries_left} tries left"

    def parts(self, absent: FindAbsent) -> Iterator[WaitPart]:
        asked = () if self.broker_id is None else (self.broker_id,)
        yield self.part("" if self.broker_id is None else self.broker_id, asked)


# --- the layers before the handlers ---

FaultAction = Literal["hold", "delay_ms", "answer_delay_ms", "drop"]
_ACTIONS: Final = {
    "hold": "holds it until it is released",
    "delay_ms": "delays it by {} ms",
    "answer_delay_ms": "delays its answer by {} ms",
    "drop": "never answers it",
}
_QUOTAS: Final[dict[str, tuple[str, Callable[[float], str]]]] = {
    "Request": ("request time of ", lambda percent: f"{percent:.3g} %"),
    "ControllerMutation": ("overdrawn by ", lambda partitions: f"{partitions:.3g} partitions/s"),
}


@dataclass(frozen=True, slots=True)
class FaultActs(Why):
    """A fault rule makes a request or its answer wait.

    Attributes:
        fault_id: the rule's number.
        fault: its name, or its number in words.
        action: by the name of the rule's field.
        delay_ms: how long; 0: until the rule is released, or for ever.
    """

    fault_id: int
    fault: str
    api: str
    action: FaultAction
    delay_ms: int = 0

    def __str__(self) -> str:
        return f"{self.api}: {self.fault} {_ACTIONS[self.action].format(self.delay_ms)}"

    def parts(self, absent: FindAbsent) -> Iterator[WaitPart]:
        yield self.part(f"{self.fault_id} {self.api}")


@dataclass(frozen=True, slots=True)
class QuotaExceeded(Why):
    """A connection is muted since its client is over a quota.

    Attributes:
        quota: what it counts, by the name of Kafka's MBean.
        user, client_id: who shares the quota; "": any.
        rule: the entity that has the quota.
        muted_ms: for how long.
        used, limit: in the quota's unit; of controller mutations, `used` is what is overdrawn.
    """

    quota: str
    user: str
    client_id: str
    rule: str
    muted_ms: int
    used: float
    limit: float

    def __str__(self) -> str:
        client = [f"user `{self.user}`"] if self.user else []
        if self.client_id or not client:
            client.append(f"client `{self.client_id}`")
        time = f"{self.muted_ms} ms" if self.muted_ms < 100 else f"{self.muted_ms / 1_000:.1f} s"
        over, shown = _QUOTAS.get(self.quota, ("", bytes_per_second))
        rate = f"{over}{shown(self.used)} of {shown(self.limit)}"
        return f"{' with '.join(client)} is muted for {time}: {rate}, rule: {self.rule}"

    def parts(self, absent: FindAbsent) -> Iterator[WaitPart]:
        yield self.part(f"{self.quota} quota of {self.rule}")


@dataclass(frozen=True, slots=True)
class OnlyDeadline(Why):
    """A timer of a scene waits for its deadline, and for no event."""

    def __str__(self) -> str:
        return "its deadline, and no event"


Cause = (
    FollowerBehind
    | TooFewInSync
    | NoRecordsYet
    | TierRead
    | TierNotListed
    | TierLookUp
    | NoShareRecordsYet
    | NoShareSessionLeft
    | LogStartBehind
    | NotDecided
    | NoLeader
    | NotLeading
    | MembersToJoin
    | FirstMembersToJoin
    | MembersToSync
    | NoHeartbeat
    | NotInitialized
    | NotAcknowledged
    | TransactionNotConfirmed
    | TransactionNotEnded
    | StateNotCommitted
    | MarkersMissing
    | CallFailed
    | ShareCoordinatorFailed
    | DeadLettersNotWritten
    | FaultActs
    | QuotaExceeded
    | OnlyDeadline
)
"""The causes that delayed operations return. Causes within other causes are not among these."""
