"""Where consumers read: from their fetches that wait, those that ended unmet, and the requests that are logged.

The log of requests is there in tests alone. Without it a consumer's position is that of its fetch, as it waits or ended
without records, of its first partitions; and how it began is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from purgatorio.admin.operations.declare import Answer
from purgatorio.broker.causes.cause import FetchPosition, NoRecordsYet, OpenTransaction
from purgatorio.broker.causes.kinds import FETCH
from purgatorio.broker.causes.words import as_document
from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.broker.layers.faults.request_log import LoggedRequest
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.routing.request import is_of_broker
from purgatorio.broker.time.long_work import Steps
from purgatorio.protocol.api_key import ApiKey

TEXT_CHARS: Final = 200
MAX_POSITIONS: Final = 1_000
"""Positions of a document: pairs of a client id and a partition."""
WAITS_LOOKED_AT: Final = 1_000
"""The oldest parked fetches of each broker that are looked at, and those that ended last."""
COST_OF_FETCH: Final = 4
"""The cost of looking at a partition of a fetch (see `LongWork`)."""
READ_COMMITTED: Final = 1


def read_positions(cluster: BrokerCluster, image: ClusterImage, document: Answer) -> Steps:
    """Add `positions`, `starts` and `joined` to a document, in steps.

    A position: a `client` id reads a `topic`'s `partition` at `offset`, in fetches to `broker`, the last of which came
    at `last_ms`; since `since_ms` all were at this offset, and the first one known was at `first_offset`: of a member
    of a group, the first one since it joined. It `is_waiting` if it is parked now, and `was_given` records by its last
    fetch that was answered (None: unknown). `isolation` is "read_committed", "read_uncommitted", or None: unknown.
    `min_bytes` and `available_bytes` are those of the last fetch that waited (None: none did), `held_back_by` its cause
    if more than the lack of records kept it from reading on, such as an open transaction. That fetch was of
    `fetched_count` partitions, some of which may have no row.

    A start: at `at_ms` a `client` asked for an offset of a `partition` by `timestamp` (-1: the end, -2: the beginning)
    and got `offset`. A `client` that joined a `group` did so last at `at_ms`,
    with this `rebalance_timeout_ms` (-1: none), as which clients give max.poll.interval.ms.
    """
    rows = document["positions"] = []
    joins: dict[str, list[int]] = {}
    document["joined"] = _joined(cluster, joins)
    fetches: list[_Fetch] = []
    for each in _fetches(cluster, image):
        fetches.append(each)
        yield COST_OF_FETCH
    fetches.sort(key=lambda each: each[0])
    seen: dict[tuple[str, str, int], Answer] = {}
    for at_ms, client, broker, place, offset, more in fetches:
        key = (client, *place)
        row = seen.get(key)
        if row is None:
            if len(seen) == MAX_POSITIONS:
                continue
            row = seen[key] = _new(client, place, offset, at_ms)
            rows.append(row)
        if any(row["last_ms"] < joined_ms <= at_ms for joined_ms in joins.get(client, ())):
            row["first_offset"], row["since_ms"] = offset, at_ms  # another consumer, or the same one again
        elif offset != row["offset"]:
            row["since_ms"] = at_ms
        row["offset"] = offset
        row.update(more, broker=broker, last_ms=at_ms)
        yield 1
    document["starts"] = list(_starts(cluster))[-MAX_POSITIONS:]
    yield 1 + COST_OF_FETCH * len(document["starts"])


def _new(client: str, place: tuple[str, int], offset: int, at_ms: int) -> Answer:
    return {
        "client": client,
        "topic": place[0],
        "partition": place[1],
        "offset": offset,
        "first_offset": offset,
        "since_ms": at_ms,
        "last_ms": at_ms,
        "was_given": None,
        "is_waiting": False,
        "isolation": None,
        "min_bytes": None,
        "available_bytes": None,
        "held_back_by": None,
        "fetched_count": 1,
    }


_Fetch = tuple[int, str, int, tuple[str, int], int, Answer]
"""When, of which client, at which broker, of which partition, at which offset, and further fields of the position."""


def _fetches(cluster: BrokerCluster, image: ClusterImage) -> Iterator[_Fetch]:
    log = cluster.faults.log
    for entry in () if log is None else list(log.entries):
        if entry.api_key == ApiKey.FETCH and entry.asked is not None:
            yield from _logged(entry, image)
    for broker in cluster.brokers:
        for each in broker.finished.last(WAITS_LOOKED_AT):
            if each.purgatory == FETCH.purgatory and each.causes and not is_of_broker(each.client):
                yield from _waited(each.parked_ms, each.client, broker.broker_id, each.causes, is_waiting=False)
        for purgatory in broker.purgatories:
            if purgatory.name == FETCH.purgatory:
                for parked in purgatory.operations(WAITS_LOOKED_AT):
                    if not is_of_broker(parked.client):
                        # It is the newest, even where another one came in the same millisecond.
                        at_ms, causes = parked.parked_ms, parked.causes
                        yield from _waited(at_ms, parked.client, broker.broker_id, causes, is_waiting=True)


def _logged(entry: LoggedRequest, image: ClusterImage) -> Iterator[_Fetch]:
    asked = entry.asked
    isolation = "read_committed" if asked.isolation_level == READ_COMMITTED else "read_uncommitted"
    is_given = None if entry.ended != "answered" or entry.errors else not entry.found_nothing
    more = {"isolation": isolation, "was_given": is_given}
    for topic in asked.topics:
        found = None if topic.topic else image.topic_by_id(topic.topic_id)
        name = topic.topic or ("" if found is None else found.name)
        for each in topic.partitions if name else ():
            place = name, each.partition
            yield entry.at_ms, entry.client, entry.broker, place, each.fetch_offset, more


def _waited(at_ms: int, client: str, broker: int, causes: Iterable[Any], *, is_waiting: bool) -> Iterator[_Fetch]:
    for cause in causes:
        if isinstance(cause, NoRecordsYet):
            common = {
                "is_waiting": is_waiting,
                "min_bytes": cause.wanted_bytes,
                "available_bytes": cause.available_bytes,
                "fetched_count": len(cause.positions) + cause.more_count,
            }
            for each in cause.positions:
                yield (
                    at_ms,
                    client,
                    broker,
                    (each.tp.topic, each.tp.partition),
                    each.offset,
                    {**common, **_held_back(each)},
                )


def _held_back(position: FetchPosition) -> Answer:
    by = position.held_back_by
    isolation = {"isolation": "read_committed"} if isinstance(by, OpenTransaction) else {}
    return {"held_back_by": None if by is None else as_document(by, TEXT_CHARS), **isolation}


def _joined(cluster: BrokerCluster, joins: dict[str, list[int]]) -> list[Answer]:
    """Return which clients joined which groups, and note when they did, by client id."""
    log = cluster.faults.log
    found: dict[tuple[str, str], Answer] = {}
    for entry in () if log is None else log.entries:
        if entry.begins:
            joins.setdefault(entry.client, []).append(entry.at_ms)
            found[entry.client, entry.group] = {
                "client": entry.client,
                "group": entry.group,
                "at_ms": entry.at_ms,
                "rebalance_timeout_ms": entry.rebalance_timeout_ms,
            }
    return list(found.values())


def _starts(cluster: BrokerCluster) -> Iterator[Answer]:
    log = cluster.faults.log
    for entry in () if log is None else list(log.entries):
        if entry.told is None:
            continue
        answers = ((topic.name, each) for topic in entry.told.topics for each in topic.partitions)
        told = {(topic, each.partition_index): each.offset for topic, each in answers}
        for topic in entry.asked.topics:
            for each in topic.partitions:
                yield {
                    "client": entry.client,
                    "topic": topic.name,
                    "partition": each.partition_index,
                    "timestamp": each.timestamp,
                    "offset": told.get((topic.name, each.partition_index), -1),
                    "at_ms": entry.at_ms,
                }
