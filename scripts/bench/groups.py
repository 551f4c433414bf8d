"""Consumer groups: the first record, many members, their heartbeats, commits, and a coordinator that is killed."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing, suppress

from confluent_kafka import Consumer, Producer

from members import Board, connected
from processes import Brokers, allow_open_files, brokers
from purgatorio.admin.cli.admin_client import AdminClient
from purgatorio.client.client import Unavailable
from purgatorio.client.group import GroupMembership, offset_commit, offset_fetch
from purgatorio.client.link import Address
from purgatorio.client.wire import TIMEOUT_SECONDS, Wire, decoded, frame, now
from purgatorio.protocol.api_key import ApiKey
from rows import Row, at_most, percentile
from wire import BlockingClient, create_topic, produce_frame, wait_for_all_replicas

ROUNDS = 5
SUBSCRIPTIONS = 10
MEMBERS = 1_000
IDLE_GROUPS, IDLE_MEMBERS = 100, 100
HEARTBEAT_SECONDS = 3.0
MEASURED_INTERVALS = 4
OFFSETS_OF_A_GROUP, GROUPS_WITH_OFFSETS = 1_000, 100
OFFSETS_TOPIC = "__consumer_offsets"
RETRY_SECONDS = 0.002


def coordinator_of(address: Address, group_id: str, *, other_than: int = -1) -> tuple[int, Address]:
    """The id and address of a group's coordinator, once a broker names one that is not dead."""
    deadline = time.perf_counter() + TIMEOUT_SECONDS
    client, found = BlockingClient(address, RETRY_SECONDS), other_than
    while True:
        with suppress(Unavailable):
            found = now(client.coordinator(group_id))
        if found != other_than:
            return found, client.addresses[found]
        assert time.perf_counter() < deadline, "there is no coordinator"
        now(client.back_off())


def commit_frame(group_id: str, topic: str, partitions: int = 1) -> bytes:
    """A commit of a client that is no member of the group."""
    return frame(offset_commit(GroupMembership(group_id), {(topic, index): 1 for index in range(partitions)}))


def commit_error(answer: bytes) -> int:
    """The first error of a commit's answer, or 0."""
    response = decoded(ApiKey.OFFSET_COMMIT, answer)
    return next((p.error_code for topic in response.topics for p in topic.partitions if p.error_code), 0)


def first_record(running: Brokers, group_id: str, *, commit: bool) -> float:
    """Milliseconds from `subscribe` to the first record, with librdkafka's defaults."""
    config = {"bootstrap.servers": running.bootstrap, "group.id": group_id, "auto.offset.reset": "earliest"}
    consumer = Consumer({**config, "log_level": 0})
    started = time.perf_counter()
    consumer.subscribe(["first"])
    message = consumer.poll(TIMEOUT_SECONDS)
    waited_ms = (time.perf_counter() - started) * 1000
    assert message is not None
    assert message.error() is None, message.error()
    if commit:
        consumer.commit(message, asynchronous=False)
    consumer.close()
    return waited_ms


def first_records(running: Brokers, quick: bool) -> list[Row]:
    """Fresh groups, and the same groups again with what they have committed."""
    create_topic(running.addresses[0], "first", 3)
    producer = Producer({"bootstrap.servers": running.bootstrap})
    for number in range(10):
        producer.produce("first", str(number))
    assert producer.flush(TIMEOUT_SECONDS) == 0
    fresh, resumed = [], []
    for number in range(2 if quick else SUBSCRIPTIONS):
        fresh.append(first_record(running, f"fresh-{number}", commit=True))
        resumed.append(first_record(running, f"fresh-{number}", commit=False))
    rows = []
    for what, waits_ms, bar_ms in (("a fresh group", fresh, 200), ("committed offsets", resumed, 75)):
        name = f"subscribe → first record, {what}, librdkafka's defaults: median of {len(waits_ms)}"
        rows.append(at_most(name, statistics.median(waits_ms), bar_ms, " ms", f" (best {min(waits_ms):.0f} ms)"))
    return rows


def second_members(running: Brokers, quick: bool) -> Row:
    """From the `subscribe` of a second consumer until it owns its share, by the consumer protocol (KIP-848)."""
    create_topic(running.addresses[0], "shared", 3, partitions=6)
    waits = []
    for number in range(2 if quick else SUBSCRIPTIONS):
        config = {"bootstrap.servers": running.bootstrap, "group.id": f"pair-{number}", "group.protocol": "consumer"}
        both = [Consumer({**config, "log_level": 0}) for _ in range(2)]
        for consumer, share in zip(both, (6, 3), strict=True):
            started = time.perf_counter()
            consumer.subscribe(["shared"])
            while len(consumer.assignment()) < share:
                assert time.perf_counter() < started + TIMEOUT_SECONDS, "the member gets no share"
                for each in both:
                    each.poll(0.002)
            waited_seconds = time.perf_counter() - started
        waits.append(waited_seconds)
        for consumer in both:
            consumer.close()
    name = f"a second member of the consumer protocol owns its share after: median of {len(waits)}"
    return at_most(name, statistics.median(waits), 0.4, " s", f" (worst {max(waits):.2f} s)")


async def _rebalance(address: tuple[str, int], count: int) -> tuple[float, int]:
    """Seconds until members that come at once are stable, and the rebalances that it took."""
    board = Board(count)
    async with AsyncExitStack() as stack:
        members = await connected(stack, address, "crowd", board, count)
        started = time.perf_counter()
        living = [asyncio.create_task(member.live(HEARTBEAT_SECONDS)) for member in members]
        stable = asyncio.create_task(board.stable.wait())
        done, _ = await asyncio.wait([stable, *living], return_when=asyncio.FIRST_COMPLETED)
        seconds = time.perf_counter() - started
        assert stable in done, done
        for task in living:
            task.cancel()
        await asyncio.gather(*living, return_exceptions=True)
    return seconds, board.generation


def crowds(quick: bool) -> list[Row]:
    """Many members come at once, with the two initial delays."""
    count = 20 if quick else MEMBERS
    allow_open_files(count + 100)
    rows = []
    for delay_ms in (0, 300 if quick else 3000):
        with brokers(**_settings(count, **{"group.initial.rebalance.delay.ms": delay_ms})) as running:
            _, address = coordinator_of(running.addresses[0], "crowd")
            seconds, rebalances = asyncio.run(_rebalance(address, count))
        name = f"{count:,} members come at once, initial delay {delay_ms} ms"
        if delay_ms == 0:
            rows.append(at_most(f"{name}: stable after", seconds, 10, " s", f" ({rebalances} rebalances)"))
        else:
            rows.append(at_most(f"{name}: rebalances", rebalances, 1, "", f" ({seconds:.1f} s)"))
    return rows


def _settings(connections: int, **settings: object) -> dict[str, object]:
    return {"max.connections": connections + 100, "max.connections.per.ip": connections + 100, **settings}


async def _idle(running: Brokers, groups: int, members: int, interval_seconds: float) -> float:
    """The share of a core in % that brokers use while stable members beat."""
    async with AsyncExitStack() as stack:
        everyone = []
        for number in range(groups):
            _, address = coordinator_of(running.addresses[0], f"idle-{number}")
            everyone += await connected(stack, address, f"idle-{number}", Board(members), members)
        await asyncio.gather(*(member.join() for member in everyone))
        step_seconds = interval_seconds / len(everyone)
        beating = [
            asyncio.create_task(member.beat(interval_seconds, number * step_seconds))
            for number, member in enumerate(everyone)
        ]
        await asyncio.sleep(interval_seconds)
        before, started = running.cpu_seconds, time.perf_counter()
        await asyncio.wait(beating, timeout=MEASURED_INTERVALS * interval_seconds, return_when=asyncio.FIRST_COMPLETED)
        assert not any(task.done() for task in beating), "a member has lost its group"
        share = (running.cpu_seconds - before) / (time.perf_counter() - started) * 100
        for task in beating:
            task.cancel()
        await asyncio.gather(*beating, return_exceptions=True)
    return share


def idle_members(quick: bool) -> Row:
    """Members that do nothing but beat, each over a connection of its own."""
    groups, members = (2, 10) if quick else (IDLE_GROUPS, IDLE_MEMBERS)
    count = groups * members
    allow_open_files(count + 100)
    settings = _settings(count, **{"group.initial.rebalance.delay.ms": 300 if quick else 3000})
    with brokers(**settings) as running:
        share = asyncio.run(_idle(running, groups, members, 0.3 if quick else HEARTBEAT_SECONDS))
    return at_most(f"{count:,} idle members in {groups} groups, a heartbeat every 3 s: CPU", share, 25, " % of a core")


def _lone_exchanges(wire: Wire, request: bytes, count: int) -> list[float]:
    times = []
    for _ in range(count):
        started = time.perf_counter()
        wire.exchange(request)
        times.append(time.perf_counter() - started)
    return times


def commits_against_produce(running: Brokers, quick: bool) -> Row:
    """Lone requests over one connection each, in turn."""
    count = 50 if quick else 1000
    leader = create_topic(running.addresses[0], "beside", 3)
    _, address = coordinator_of(running.addresses[0], "commits")
    commit, produce = commit_frame("commits", "beside"), produce_frame("beside", 100, acks=-1)
    ratios, commits_us = [], []
    with closing(Wire(address)) as committing, closing(Wire(leader)) as producing:
        assert not commit_error(committing.exchange(commit))
        produced = decoded(ApiKey.PRODUCE, producing.exchange(produce))
        assert not produced.responses[0].partition_responses[0].error_code, produced
        for _ in range(1 if quick else ROUNDS + 1):  # the first round warms up
            produced_seconds = percentile(_lone_exchanges(producing, produce, count), 0.5)
            commits_us.append(percentile(_lone_exchanges(committing, commit, count), 0.5) * 1e6)
            ratios.append(commits_us[-1] / 1e6 / produced_seconds)
    detail = f" ({statistics.median(commits_us[-ROUNDS:]):.0f} µs)"
    name = "commit of an offset: p50 against produce with acks=-1"
    return at_most(name, statistics.median(ratios[-ROUNDS:]), 1.3, "×", detail)


def _kill_coordinator(running: Brokers, group_id: str) -> tuple[int, tuple[str, int], float]:
    """Kill a group's coordinator: its id, the address of a broker that lives, and when it was killed."""
    found, (_, port) = coordinator_of(running.addresses[0], group_id)
    survivor = next(address for address in running.addresses if address[1] != port)
    AdminClient(running.admin_url).post(f"brokers/{found}/kill")
    return found, survivor, time.perf_counter()


def _answers(address: tuple[str, int], request: bytes) -> Iterator[bytes]:
    """The answers to a request that is repeated."""
    deadline = time.perf_counter() + TIMEOUT_SECONDS
    with closing(Wire(address)) as wire:
        while time.perf_counter() < deadline:
            yield wire.exchange(request)
            time.sleep(RETRY_SECONDS)
    raise AssertionError("the coordinator does not answer in time")


def killed_coordinators(running: Brokers, quick: bool) -> Row:
    """From the death of a coordinator until its successor has answered a commit; the client asks all the time."""
    create_topic(running.addresses[0], "survives", 3)
    waits = []
    for number in range(1 if quick else SUBSCRIPTIONS):
        group_id = f"orphans-{number}"
        request = commit_frame(group_id, "survives")
        _, first = coordinator_of(running.addresses[0], group_id)
        next(answer for answer in _answers(first, request) if not commit_error(answer))
        killed, survivor, killed_at = _kill_coordinator(running, group_id)
        _, found = coordinator_of(survivor, group_id, other_than=killed)
        next(answer for answer in _answers(found, request) if not commit_error(answer))
        waits.append(time.perf_counter() - killed_at)
        AdminClient(running.admin_url).post(f"brokers/{killed}/start")
        wait_for_all_replicas(running.addresses[0], OFFSETS_TOPIC)
    name = f"coordinator killed → a commit is answered: worst of {len(waits)}"
    return at_most(name, max(waits), 2, " s", f" (median {statistics.median(waits):.2f} s)")


def load_of_offsets(quick: bool) -> Row:
    """From the moment when brokers name the new coordinator until it answers with what was committed."""
    groups, offsets = (2, 10) if quick else (GROUPS_WITH_OFFSETS, OFFSETS_OF_A_GROUP)
    waits, cpu_seconds = [], []
    with brokers(**{"offsets.topic.num.partitions": 1}) as running:
        create_topic(running.addresses[0], "many", 1, partitions=offsets)
        _, found = coordinator_of(running.addresses[0], "group-0")
        for number in range(groups):
            request = commit_frame(f"group-{number}", "many", offsets)
            next(a for a in _answers(found, request) if not commit_error(a))
        request = frame(offset_fetch(f"group-{groups - 1}", [("many", offsets - 1)]))
        for _ in range(1 if quick else 3):
            used = running.cpu_seconds
            killed, survivor, _ = _kill_coordinator(running, "group-0")
            _, found = coordinator_of(survivor, "group-0", other_than=killed)
            named_at = time.perf_counter()
            for answer in _answers(found, request):
                (fetched,) = decoded(ApiKey.OFFSET_FETCH, answer).groups
                if not fetched.error_code:
                    break
            waits.append(time.perf_counter() - named_at)
            cpu_seconds.append(running.cpu_seconds - used)
            assert fetched.topics[0].partitions[0].committed_offset == 1, fetched
            AdminClient(running.admin_url).post(f"brokers/{killed}/start")
            wait_for_all_replicas(running.addresses[0], OFFSETS_TOPIC)
    name = f"{groups * offsets:,} committed offsets are loaded by the next coordinator"
    detail = f" (worst {max(waits):.2f} s; {statistics.median(cpu_seconds):.2f} s of CPU with the election)"
    return at_most(name, statistics.median(waits), 1, " s", detail)


def rows(quick: bool = False) -> list[Row]:
    """Run all measurements of this file."""
    with brokers() as running:
        measured = [
            *first_records(running, quick),
            second_members(running, quick),
            commits_against_produce(running, quick),
            killed_coordinators(running, quick),
        ]
    return [*measured, load_of_offsets(quick), *crowds(quick), idle_members(quick)]
