"""The facts of a running cluster that conclusions need, as one bounded JSON document.

Each process reads those of its own brokers; `merged_facts` makes one document of theirs. Points in time end in ``_ms``
and are on the clock of `now_ms`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final

from purgatorio.admin.operations.declare import Answer
from purgatorio.admin.operations.operator import Operator
from purgatorio.admin.operations.reading.group_state import MAX_LAGS, Ends, read_groups_in_full
from purgatorio.admin.operations.reading.members import connected_clients, read_members
from purgatorio.admin.operations.reading.parked import read_parked
from purgatorio.admin.operations.reading.state import read_follower, read_partitions, read_unmet
from purgatorio.admin.operations.reading.transaction_state import read_transactions_for_page
from purgatorio.admin.operations.reading.why.positions import MAX_POSITIONS, read_positions
from purgatorio.admin.operations.reading.why.requests import MAX_ERRORS, MAX_IDLE, MAX_REQUESTS, read_requests
from purgatorio.admin.operations.reading.why.share_groups import MAX_SHARES, read_shares
from purgatorio.broker.causes.kinds import KINDS
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metadata.topic_name import is_internal
from purgatorio.broker.routing.request import is_of_broker
from purgatorio.broker.time.long_work import Steps
from purgatorio.broker.txn.completion import MAX_TIMED_OUT
from purgatorio.logger import cut

MAX_PARTITIONS: Final = 1_000
PARTITIONS_AT_ONCE: Final = 20
COST_OF_PARTITION: Final = 25
MEMBERS: Final = 1_000
"""Members of each group."""
OFFSETS: Final = 1_000
"""Partitions of each group."""
MAX_WAITS: Final = 200
WAITS_LOOKED_AT: Final = 1_000
"""Operations of each purgatory, and of each broker those that ended last, that are looked at."""
COST_OF_WAIT: Final = 15
MAX_ABORTED: Final = 100
"""Partitions whose last aborted transaction is read."""
MAX_FAULTS: Final = 20
MAX_CLIENTS: Final = 1_000
MAX_REFUSALS: Final = 50


async def read_facts(operator: Operator) -> Answer:
    """Return the facts, as the brokers of this process know them; read in steps, between which others go on."""
    document: Answer = {"now_ms": operator.cluster.clock.now_ms()}

    def steps() -> Steps:
        for part in PARTS:
            yield from part(operator, document)

    await operator.cluster.work.take(steps())
    return document


def no_facts(now_ms: int) -> Answer:
    """Return the facts of a cluster of which nothing is known."""
    lists = ("brokers", "clients", "groups", "positions", "starts", "joined", "topics", "partitions", "parked")
    more = ("ended", "transactions", "faults", "fired", "requests", "idle_requests", "errors", "asked", "producers")
    refused = ("denied", "refused_connections", "shares", "left_over", "timed_out", "aborted")
    counts = ("client_count", "group_count", "topic_count", "parked_count", "fired_count", "request_count")
    return {
        "now_ms": now_ms,
        **{name: [] for name in (*lists, *more, *refused)},
        **dict.fromkeys(counts, 0),
        "acquired_by": None,
    }


# --- the parts ---


def _brokers(operator: Operator, document: Answer) -> Steps:
    """Read `brokers` as the operation ListBrokers has them, with how their followers' fetches are held back."""
    running = {broker.broker_id: broker for broker in operator.cluster.brokers}
    document["brokers"] = [
        {**row, "follower": read_follower(running[row["id"]]) if row["id"] in running else None}
        for row in read_members(operator.cluster, operator.control)
    ]
    yield COST_OF_PARTITION * len(document["brokers"])


def _groups(operator: Operator, document: Answer) -> Steps:
    """Read `groups`, the most telling ones, and `group_count`: see `read_groups_in_full`."""
    ends = Ends(operator.cluster.brokers, operator.image, MAX_LAGS)
    yield from read_groups_in_full(operator.groups, ends, document, members=MEMBERS, offsets=OFFSETS)


def _positions(operator: Operator, document: Answer) -> Steps:
    """Read `positions`, `starts` and `joined`: see `read_positions`."""
    yield from read_positions(operator.cluster, operator.image, document)


def _shares(operator: Operator, document: Answer) -> Steps:
    """Read `shares` and `acquired_by`: see `read_shares`."""
    yield from read_shares(operator.cluster, document)


def _partitions(operator: Operator, document: Answer) -> Steps:
    """Read `partitions` as the state of the page has them: those that consumers read, then others, by name.

    `topics` are all names but those of internal topics, of very many the first ones, and `topic_count` their number.
    """
    image = operator.image
    names = sorted(name for name in image.topics if not is_internal(name))
    document["topics"], document["topic_count"] = names[:MAX_PARTITIONS], len(names)
    document["partitions"] = []
    wall_ms = operator.cluster.clock.wall_ms()
    wanted = iter(list(islice(dict.fromkeys(_told(document, image, names)), MAX_PARTITIONS)))
    yield 1 + len(names)
    while some := list(islice(wanted, PARTITIONS_AT_ONCE)):
        rows, _ = read_partitions(operator.cluster.brokers, image, operator.transactions, wall_ms, only=some)
        document["partitions"] += rows
        yield COST_OF_PARTITION * len(some)


def _told(document: Answer, image: ClusterImage, names: Sequence[str]) -> Iterator[TopicPartition]:
    rows = chain(document["positions"], document["shares"], *(group["offsets"] for group in document["groups"]))
    for each in rows:
        yield TopicPartition(each["topic"], each["partition"])
    for name in names:
        for number in range(len(image.topics[name].partitions)):
            yield TopicPartition(name, number)


def _waits(operator: Operator, document: Answer) -> Steps:
    """Read `parked` as the operation ListParked has them, the longest waiting first, and `parked_count`, of all.

    Requests of brokers are left out, but for those that are counted alone. `ended` are operations that ended without
    what they waited for, newest first, as the operation Finished has them.
    """
    cluster = operator.cluster
    rows = []
    for each in read_parked(cluster.brokers, operator.transactions, None, None, None, WAITS_LOOKED_AT):
        if not is_of_broker(each.client):
            rows.append(each)
        yield COST_OF_WAIT
    left_out = (
        purgatory.num_delayed - WAITS_LOOKED_AT
        for broker in cluster.brokers
        for purgatory in broker.purgatories
        if not KINDS[purgatory.name].is_idle
    )
    document["parked_count"] = len(rows) + sum(each for each in left_out if each > 0)
    oldest = heapq.nsmallest(MAX_WAITS, rows, key=lambda each: -each.waited_ms)
    document["parked"] = [each.as_document() for each in oldest]
    yield COST_OF_WAIT * (1 + len(oldest))
    ended = islice(read_unmet(cluster.brokers, WAITS_LOOKED_AT), MAX_WAITS)
    document["ended"] = []
    for row in ended:
        document["ended"].append(row)
        yield COST_OF_WAIT


def _transactions(operator: Operator, document: Answer) -> Steps:
    """Read `transactions` as the page has them: open ones first, the oldest of all first; and `timed_out` ones.

    Those ran out last: at `at_ms` that of `transactional_id`, which was open for `open_ms`; `is_early`: on request.
    """
    document["transactions"], _ = read_transactions_for_page(operator.transactions)
    timed_out = chain.from_iterable(each.transactions.completion.timed_out for each in operator.cluster.brokers)
    rows = ({**each._asdict(), "transactional_id": cut(each.transactional_id)} for each in timed_out)
    document["timed_out"] = sorted(rows, key=lambda row: int(row["at_ms"]))[-MAX_TIMED_OUT:]
    yield COST_OF_PARTITION * (1 + len(document["transactions"]))


def _aborted(operator: Operator, document: Answer) -> Steps:
    """Read `aborted`: of a `topic`'s `partition` that a consumer reads read_committed, the last aborted transaction.

    Its records begin at `first_offset`, and end before `marker_offset`; `transactional_id` is "" if it is not known.
    """
    rows = document["aborted"] = []
    names = {each["producer_id"]: each["id"] for each in document["transactions"]}
    leaders = {broker.broker_id: broker for broker in operator.cluster.brokers}
    reads = (each for each in document["positions"] if each["isolation"] == "read_committed")
    for place in list(islice(dict.fromkeys((each["topic"], each["partition"]) for each in reads), MAX_ABORTED)):
        state = operator.image.partition(*place)
        leader = None if state is None else leaders.get(state.leader)
        replica = None if leader is None else leader.replica(TopicPartition(*place))
        last = None if replica is None else replica.log.producers.aborted.last
        if last is not None:
            offsets = {"first_offset": last.first_offset, "marker_offset": last.marker_offset}
            name = names.get(last.producer_id, "")
            of_producer = {"transactional_id": name, "producer_id": last.producer_id}
            rows.append({"topic": place[0], "partition": place[1], **of_producer, **offsets})
        yield 1


def _faults(operator: Operator, document: Answer) -> Steps:
    """Read the newest `faults`, and those that `fired` last, newest first, as the operation ListFaults has them."""
    faults = operator.cluster.faults
    document["faults"] = [each.as_data() for each in faults.rules[-MAX_FAULTS:]]
    document["fired"] = [each._asdict() for each in islice(reversed(faults.fired), MAX_FAULTS)]
    document["fired_count"] = len(faults.fired)
    yield COST_OF_PARTITION * MAX_FAULTS


def _clients(operator: Operator, document: Answer) -> Steps:
    """Read `clients`, the ids of those that are connected, of very many the first ones, and `client_count`.

    Those of the ids in `left_over` were connected before the last reset of the cluster, too.
    """
    clients = connected_clients(operator.cluster.brokers)
    document["clients"], document["client_count"] = clients[:MAX_CLIENTS], len(clients)
    document["left_over"] = [each for each in document["clients"] if each in operator.before_reset]
    yield 1 + len(clients)


def _refusals(operator: Operator, document: Answer) -> Steps:
    """Read the last refusals: `denied` for lack of a permission, and `refused_connections`, oldest first."""
    brokers = operator.cluster.brokers
    audits = [broker.access.audit for broker in brokers if broker.access is not None]
    listeners = [each for broker in brokers for each in broker.listeners.values()]
    denied = [each._asdict() for audit in audits for each in audit.last]
    refused = [each._asdict() for listener in listeners for each in listener.refusals.last]
    document["denied"] = sorted(denied, key=lambda row: int(row["at_ms"]))[-MAX_REFUSALS:]
    document["refused_connections"] = sorted(refused, key=lambda row: int(row["at_ms"]))[-MAX_REFUSALS:]
    yield 1 + len(denied) + len(refused)


def _requests(operator: Operator, document: Answer) -> Steps:
    """Read what clients asked last: see `read_requests`."""
    yield from read_requests(operator.cluster.faults.log, document)


PARTS: Final[tuple[Callable[[Operator, Answer], Steps], ...]] = (
    _brokers,
    _clients,
    _groups,
    _positions,
    _shares,
    _partitions,
    _waits,
    _transactions,
    _aborted,
    _faults,
    _refusals,
    _requests,
)
"""The readers of facts, which work in steps: each adds its own part to the document."""


# --- of several processes ---


def merged_facts(answers: Sequence[Answer], partitions: list[Any], faults: list[Any]) -> Answer:
    """Return one document for those of several processes.

    Args:
        partitions, faults: their rows of these, merged.
    """
    clients = sorted(set(_joined(answers, "clients")))
    return {
        **answers[0],
        **{name: sum(answer[name] for answer in answers) for name in SUMMED},
        **{name: _last(answers, name, moment, limit) for name, (moment, limit) in LAST.items()},
        "now_ms": max(answer["now_ms"] for answer in answers),
        "brokers": _joined(answers, "brokers"),
        "clients": clients[:MAX_CLIENTS],
        "left_over": sorted(set(_joined(answers, "left_over"))),
        "client_count": len(clients),
        "groups": sorted(_joined(answers, "groups"), key=lambda row: str(row["id"])),
        "asked": _joined(answers, "asked"),
        "aborted": _joined(answers, "aborted")[:MAX_ABORTED],
        "shares": _joined(answers, "shares")[:MAX_SHARES],
        "acquired_by": None
        if any(answer["acquired_by"] is None for answer in answers)
        else _joined(answers, "acquired_by"),
        "positions": _newest_positions(_joined(answers, "positions")),
        "partitions": partitions,
        "faults": faults,
        "parked": heapq.nsmallest(MAX_WAITS, _joined(answers, "parked"), key=lambda row: -int(row["waited_ms"])),
        "ended": _last(answers, "ended", "done_ms", MAX_WAITS)[::-1],
        "fired": _last(answers, "fired", "at_ms", MAX_FAULTS)[::-1],
        "transactions": sorted(_joined(answers, "transactions"), key=lambda row: str(row["id"])),
    }


SUMMED: Final = ("group_count", "parked_count", "fired_count", "request_count")
LAST: Final = {
    "starts": ("at_ms", MAX_POSITIONS),
    "joined": ("at_ms", MAX_POSITIONS),
    "requests": ("at_ms", MAX_REQUESTS),
    "idle_requests": ("last_ms", MAX_IDLE),
    "errors": ("last_ms", MAX_ERRORS),
    "producers": ("at_ms", MAX_REQUESTS),
    "timed_out": ("at_ms", MAX_TIMED_OUT),
    "denied": ("at_ms", MAX_REFUSALS),
    "refused_connections": ("at_ms", MAX_REFUSALS),
}
"""Rows of all processes, oldest first: by what time, and how many of the last ones are kept."""


def _joined(answers: Sequence[Answer], name: str) -> list[Any]:
    return list(chain.from_iterable(answer[name] for answer in answers))


def _last(answers: Sequence[Answer], name: str, moment: str, limit: int) -> list[Any]:
    return sorted(_joined(answers, name), key=lambda row: int(row[moment]))[-limit:]


def _newest_positions(rows: list[Answer]) -> list[Answer]:
    """Return of each client and partition the newest position: its leader may have moved."""
    found: dict[tuple[str, str, int], Answer] = {}
    for row in sorted(rows, key=lambda row: (int(row["last_ms"]), bool(row["is_waiting"]))):
        key = row["client"], row["topic"], row["partition"]
        before = found.get(key)
        found[key] = row if before is None else {**row, "first_offset": before["first_offset"]}
    return list(found.values())[-MAX_POSITIONS:]
