"""Share groups: the first record, acquire and accept, locks that run out, a coordinator that is killed; beside Kafka.

Both sides have the same members, which send ready requests over plain sockets, and the same limits, lowered where
Kafka's are long. Each cell is measured in turn on both; medians of the turns.
"""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Final

from apache_kafka import apache_kafka
from loads import accepted, pipelined
from processes import Brokers, brokers
from purgatorio.admin.cli.admin_client import AdminClient
from purgatorio.client.wire import TIMEOUT_SECONDS, Wire
from purgatorio.protocol.coordinator_partition import coordinator_partition
from purgatorio.protocol.share_state import SharePartitionKey
from rows import Row, at_most, rounds_at_most
from share_member import Acquired, ShareMember, configure_group
from side_by_side import Figure, figure_row
from wire import create_topic, fetch_frame, metadata_of, produce_frame, wait_for_all_replicas

KAFKA: Final = "4.4.0"
ROUNDS: Final = 3
MEMBERS: Final = 8
DEPTH: Final = 20
"""Plain requests that are sent at a time."""
LOCK_MS: Final = 1_000
MAX_ROUND_SECONDS: Final = 300
LIMITS: Final = {
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.share.min.record.lock.duration.ms": LOCK_MS,
    "group.share.min.heartbeat.interval.ms": 100,
    "group.share.heartbeat.interval.ms": 100,
    "group.share.assignment.interval.ms": 0,
}
"""The limits of both sides: Kafka's shortest lock is 15 s, or 1 s if lowered, and its members beat each 5 s."""
STATE_TOPIC: Final = "__share_group_state"
_numbers = itertools.count()


def _topic(running: Brokers, count: int, replication_factor: int = 1) -> tuple[str, tuple[str, int]]:
    """A new topic with so many records and one more, each in a batch of its own, and the address of its leader."""
    name = f"share-{next(_numbers)}"
    leader = create_topic(running.addresses[0], name, replication_factor)
    request = produce_frame(name, 100, acks=1)
    pipelined(leader, request, depth=16, count=count)
    return name, leader


def _member(stack: ExitStack, running: Brokers, leader: tuple[str, int], group_id: str, nth: int = 0) -> ShareMember:
    member = ShareMember(running.addresses[0], leader, group_id, f"member-{nth}")
    return stack.enter_context(closing(member))


def _fresh(running: Brokers, count: int) -> float:
    """Seconds from the first request of a fresh group's member to its first record; median of so many groups."""
    topic, leader = _topic(running, 10)
    waits = []
    for _ in range(count):
        group_id = f"group-{next(_numbers)}"
        configure_group(running.addresses[0], group_id)
        with ExitStack() as stack:
            started = time.perf_counter()
            member = _member(stack, running, leader, group_id)
            member.join(topic)
            member.fetch_some()
            waits.append(time.perf_counter() - started)
    return statistics.median(waits)


def _consume(member: ShareMember, taken: list[Acquired], count: int, max_records: int) -> None:
    """Acquire and accept until `count` records are accepted; each fetch accepts what the one before has acquired.

    Args:
        taken: what the member has acquired before: left alone, it would end the window of records in flight.
    """
    accepted, deadline = 0, time.perf_counter() + MAX_ROUND_SECONDS
    while accepted < count:
        accepted += sum(each.count for each in taken)
        taken = member.fetch(taken, max_records=max_records, max_wait_ms=100)
        assert time.perf_counter() < deadline, f"{accepted} of {count} records came"


def _rate(members: int, max_records: int, running: Brokers, count: int) -> float:
    """Records a second that members of one group acquire and accept from one partition."""
    share = count // members
    topic, leader = _topic(running, count + 2 * members * max_records)
    group_id = f"group-{next(_numbers)}"
    configure_group(running.addresses[0], group_id)
    with ExitStack() as stack:
        joined = [_member(stack, running, leader, group_id, nth) for nth in range(members)]
        taken = []
        for member in joined:
            member.join(topic)
            taken.append(member.fetch())  # the session is open, and the share partition loaded
        started = time.perf_counter()
        with ThreadPoolExecutor(members) as threads:
            list(threads.map(lambda member, first: _consume(member, first, share, max_records), joined, taken))
        return share * members / (time.perf_counter() - started)


def _late(running: Brokers, count: int) -> list[float]:
    """Milliseconds by which a record comes to a second member too late, after the lock of the first has run out."""
    topic, leader = _topic(running, 0)
    group_id = f"group-{next(_numbers)}"
    configure_group(running.addresses[0], group_id, share_record_lock_duration_ms=LOCK_MS)
    late_ms = []
    with ExitStack() as stack:
        first, second = (_member(stack, running, leader, group_id, nth) for nth in range(2))
        producer = stack.enter_context(closing(Wire(leader)))
        first.join(topic)
        second.join(topic)
        for number in range(count):
            if number:
                producer.exchange(produce_frame(topic, 100, acks=1))
            got = first.fetch_some()
            acquired_at = time.perf_counter()
            again = second.fetch_some()
            late_ms.append((time.perf_counter() - acquired_at) * 1000 - LOCK_MS)
            assert again == got, (got, again)
            assert second.accept(again) == 0
    return late_ms


# --- ours alone ---


def _state_leader(running: Brokers, key: SharePartitionKey) -> int:
    with closing(Wire(running.addresses[0])) as wire:
        partitions = metadata_of(wire, [STATE_TOPIC]).topics[0].partitions
    number = coordinator_partition(str(key), len(partitions))
    return next(each.leader_id for each in partitions if each.partition_index == number)


def killed_coordinators(quick: bool) -> Row:
    """From the death of a share coordinator until a leader that lives has answered an acknowledgement."""
    waits = []
    with brokers(3, **{"group.share.heartbeat.interval.ms": 100}) as running:
        while len(waits) < (1 if quick else 10):
            topic, leader = _topic(running, 10, replication_factor=3)
            group_id = f"group-{next(_numbers)}"
            configure_group(running.addresses[0], group_id)
            with ExitStack() as stack:
                member = _member(stack, running, leader, group_id)
                member.join(topic)
                got = member.fetch_some()
                killed = _state_leader(running, SharePartitionKey(group_id, member.topic_id, 0))
                if running.addresses[killed - 1] == leader:
                    continue  # it would take the leader with it
                admin = AdminClient(running.admin_url)
                admin.post(f"brokers/{killed}/kill")
                killed_at = time.perf_counter()
                while (code := member.accept(got)) != 0:
                    assert time.perf_counter() < killed_at + TIMEOUT_SECONDS, code
                waits.append(time.perf_counter() - killed_at)
                admin.post(f"brokers/{killed}/start")
                wait_for_all_replicas(running.addresses[0], STATE_TOPIC)
    name = f"share coordinator killed → acknowledged again: worst of {len(waits)}"
    return at_most(name, max(waits), 1, " s", f" (median {statistics.median(waits):.2f} s)")


def plain_requests(quick: bool) -> list[Row]:
    """CPU of plain requests beside share groups, and of a cluster that has none.

    Two processes that do the same differ by some 3 %, wherever their memory is: so there are several pairs of them.
    """
    groups, pairs = (2, 1) if quick else (50, 9)
    told = [_more_in_percent(groups, swapped=bool(number % 2), quick=quick) for number in range(pairs)]
    return [
        rounds_at_most(
            f"{groups} share groups beside: a plain {what} request takes more CPU by",
            [more[what] for more, _ in told],
            3,
            " %",
            f", of {statistics.median(plain_us[what] for _, plain_us in told):.3g} µs",
        )
        for what in told[0][0]
    ]


def _more_in_percent(groups: int, *, swapped: bool, quick: bool) -> tuple[dict[str, float], dict[str, float]]:
    """By how much plain requests take more CPU in one of two clusters, and how many microseconds in the other.

    Both get the same requests in many short rounds, by turns, and give the same answers: a fetch reads ten records each
    time. So the load of the machine is in both sides of a round's ratio. Returns medians.
    """
    count, rounds = (200, 2) if quick else (500, 40)
    with brokers(1, **LIMITS) as one, brokers(1, **LIMITS) as other, ExitStack() as stack:
        without, beside = (other, one) if swapped else (one, other)
        shared, leader = _topic(beside, groups)
        for number in range(groups):
            group_id = f"idle-{number}"
            configure_group(beside.addresses[0], group_id)
            member = _member(stack, beside, leader, group_id)
            member.join(shared)
            member.fetch_some()  # the session stays open
        sides = [stack.enter_context(_plain_side(running)) for running in (without, beside)]
        more: dict[str, float] = {}
        plain: dict[str, float] = {}
        for what in sides[0]:
            costs_us: tuple[list[float], list[float]] = ([], [])
            for number in range(rounds + 1):
                for side in (0, 1) if number % 2 else (1, 0):
                    cost_us = sides[side][what](count)
                    if number:  # the first one warms up
                        costs_us[side].append(cost_us)
            ratios = [beside_us / plain_us for plain_us, beside_us in zip(*costs_us, strict=True)]
            more[what], plain[what] = (statistics.median(ratios) - 1) * 100, statistics.median(costs_us[0])
    return more, plain


@contextmanager
def _plain_side(running: Brokers) -> Iterator[dict[str, Callable[[int], float]]]:
    """What measures each plain request at one cluster: microseconds of CPU for one of so many."""
    address = running.addresses[0]
    for topic in ("written", "read"):
        create_topic(address, topic, 1)
    frames = {
        "produce": produce_frame("written", 100, acks=1),
        "fetch": fetch_frame("read", 0, max_wait_ms=0),
    }
    with closing(Wire(address)) as wire:
        accepted(wire, frames["produce"])
        accepted(wire, produce_frame("read", 100, acks=1, records=10))

        def cost(request: bytes, count: int) -> float:
            before = running.run_seconds
            for _ in range(count // DEPTH):
                wire.socket.sendall(request * DEPTH)
                for _ in range(DEPTH):
                    wire.receive()
            return (running.run_seconds - before) / (count // DEPTH * DEPTH) * 1e6

        yield {what: partial(cost, request) for what, request in frames.items()}


# --- side by side ---

CELLS: Final[tuple[tuple[Figure, int, int, int], ...]] = (
    (Figure("one member: acquire + accept of single records", " records/s", "high", 1.0), 1, 1, 1_000),
    (Figure(f"{MEMBERS} members on one partition: the same", " records/s", "high", 1.0), MEMBERS, 1, 2_000),
    (Figure("one member: acquire + accept, 100 a request", " records/s", "high", 1.0), 1, 100, 20_000),
)
"""Each figure, with the members, the records of a request, and the records of a round."""


def _side_by_side(quick: bool) -> list[Row]:
    group = f"ours / Apache Kafka {KAFKA}"
    rows = []
    rounds, groups, locks = (1, 2, 3) if quick else (ROUNDS, 5, 10)
    with brokers(1, **LIMITS) as ours, apache_kafka(1, LIMITS, version=KAFKA) as theirs:
        sides = (ours, theirs)
        fresh = [[_fresh(running, groups) for running in sides] for _ in range(rounds)]
        mine, other = ([each[side] for each in fresh] for side in range(2))
        rows.append(rounds_at_most("a fresh share group → first record", mine, 0.3, " s"))
        rows.append(figure_row(Figure("the same", " s", "low"), group, mine, other))
        for figure, members, max_records, count in CELLS:
            requests = count // 20 if quick else count
            turns = [[_rate(members, max_records, running, requests) for running in sides] for _ in range(rounds + 1)]
            mine, other = ([each[side] for each in turns[1:]] for side in range(2))  # the first one warms up
            rows.append(figure_row(figure, group, mine, other))
            print(f"  {rows[-1].name}: {rows[-1].measured}", file=sys.stderr, flush=True)
        late_ms = [_late(running, locks) for running in sides]
    name = f"a lock of {LOCK_MS} ms runs out: the record comes to another member late by"
    rows.append(rounds_at_most(name, late_ms[0], 5, " ms", f"; worst {max(late_ms[0]):.3g} ms"))
    mine, other = ([statistics.median(each)] for each in late_ms)
    rows.append(figure_row(Figure("the same, p50", " ms", "low"), group, mine, other))
    return rows


def rows(quick: bool = False) -> list[Row]:
    """Run all measurements of this file."""
    load = Row("load average before", f"{os.getloadavg()[0]:.1f}")
    return [load, *_side_by_side(quick), killed_coordinators(quick), *plain_requests(quick)]
