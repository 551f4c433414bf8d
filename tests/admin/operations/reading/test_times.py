"""All numbers that are times, in the answer of each GET operation and in `purgatorio top`, when the clock is moved."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest

from purgatorio.admin.cli.top.views import VIEWS
from purgatorio.admin.cluster import Cluster
from purgatorio.admin.learn.clients import KINDS as CLIENTS
from purgatorio.admin.learn.clients.client import Stage
from purgatorio.admin.operations.brokers import ChangeFollower
from purgatorio.admin.operations.clock import AdvanceClock
from purgatorio.admin.operations.control.cluster_control import ClusterControl
from purgatorio.admin.operations.declare import Operation
from purgatorio.admin.operations.faults import AddFault
from purgatorio.admin.operations.groups import DescribeGroup
from purgatorio.admin.operations.operator import Operator
from purgatorio.admin.operations.purgatories import Expire, ListParked
from purgatorio.admin.operations.share_groups import ExpireLocks
from purgatorio.admin.operations.snapshots import Reset
from purgatorio.admin.operations.table import OPERATIONS
from purgatorio.admin.operations.topics import ApplyRetention, CreateTopic
from purgatorio.broker.causes.kinds import KINDS, LESSON, Time
from purgatorio.broker.cluster.errors import NotThere
from purgatorio.broker.config.sources import load_cluster_config
from purgatorio.broker.time.movable_clock import MovableClock
from purgatorio.broker.time.system_clock import SystemClock

pytestmark = pytest.mark.slow

GIVEN: Final[Mapping[str, list[dict[str, Any]]]] = {
    "DescribeGroup": [{"id": "billing"}],
    "DescribeShareGroup": [{"id": "mailers"}],
    "DescribeTransaction": [{"id": "tx-7"}],
    "FindLeader": [{"topic": "orders"}],
    "ListParked": [{}, {"api": "Heartbeat"}, {"api": "TransactionTimeout"}, {"api": "AcquisitionLock"}],
    "ReadRecords": [{"topic": "orders"}],
    "ShowPurgatory": [{"id": 1, "name": name} for name in ("Produce", "Fetch", "Heartbeat", "TransactionTimeout")],
    "ShowTier": [],  # there is none; it has no times
    "ShowTopic": [{"topic": "orders"}],
}
"""What operations are given that need something, or of which several things are asked."""
LEFT: Final = {"left_ms", "lock_left_ms", "remaining_ms", "session_left_ms", "timeout_left_ms"}
AGES: Final = {"age_ms", "idle_ms", "open_ms", "waited_ms"}
PAST: Final = {"at_ms", "current_ms", "done_ms", "first_ms", "last_ms", "parked_ms", "since_ms"}
AHEAD: Final = {"deadline_ms", "expiration_ms"}
NOW: Final = {"now_ms", "timestamp_ms", "wall_ms"}
SETTINGS: Final = {"answer_delay_ms", "delay_ms", "session_timeout_ms", "tick_ms", "timeout_ms"}
LONGEST_MS: Final = 900_000
"""The longest timeout of all: that of a transaction."""
NEGATIVE: Final = re.compile(r"(?<![\w-])-\d[\d.,]* ?(ms|s|min|h)\b")
"""A time below zero, in words."""
SECONDS: Final = 20.0
"""How far time is moved: beyond the long polls, and not beyond locks, sessions and transactions."""


@dataclass
class Busy:
    """A cluster in which all waits that a clock moves: its clients live by the machine's time, as real ones do."""

    cluster: Cluster
    clock: MovableClock
    operator: Operator
    clients: dict[str, Any]
    began_ms: int

    async def ask(self, operation: type[Operation], /, **given: Any) -> Any:
        return await operation(**given).run(self.operator)

    async def until(self, is_so: Callable[[], Any]) -> None:
        async with asyncio.timeout(20):
            while not is_so():  # noqa: ASYNC110 (real clients, and no event that all of them set)
                await asyncio.sleep(0.01)

    async def answers(self) -> list[tuple[str, Any]]:
        """Ask all that can be asked by GET."""
        found = []
        for operation in OPERATIONS:
            if operation.method == "GET":
                for given in GIVEN.get(operation.__name__, [{}]):
                    with contextlib.suppress(NotThere):  # a group ends with its last member
                        found.append((f"{operation.__name__} {given}", await self.ask(operation, **given)))
        return found

    async def wrong(self, *also: tuple[str, Any]) -> list[str]:
        """Return the times that cannot be, with their places: in answers, also these, and on the screen of `top`."""
        answers = [*await self.answers(), *also]
        now_ms = self.cluster.clock.now_ms()  # after them: a clock that goes moves while they are asked for
        numbers = [
            f"{name}{place}: {value}"
            for name, answer in answers
            for place, row, field in times_in(answer)
            if not is_right(row, field, value := row[field], now_ms, self.began_ms)
        ]
        texts = [(name, text) for name, answer in answers for text in texts_in(answer)]
        for view in VIEWS.values():
            answer = await self.ask(view.asks, **view.given)
            texts += [(f"top :{view.name}", text) for row in view.rows(answer) for text in (*row.cells, *row.why)]
        return numbers + [f"{name}: {text}" for name, text in texts if NEGATIVE.search(text)]


def times_in(answer: Any, place: str = "") -> Iterator[tuple[str, Any, str]]:
    """Yield all numbers in a document that are times by their names, each with its place and the object that has it."""
    if isinstance(answer, dict):
        for name, value in answer.items():
            if isinstance(value, (dict, list)):
                yield from times_in(value, f"{place}.{name}")
            elif (name.endswith("_ms") or "since" in name) and isinstance(value, (int, float)):
                yield f"{place}.{name}", answer, name
    elif isinstance(answer, list):
        for index, value in enumerate(answer):
            yield from times_in(value, f"{place}[{index}]")


def texts_in(answer: Any) -> Iterator[str]:
    """Yield all texts in a document."""
    if isinstance(answer, str):
        yield answer
    elif isinstance(answer, (dict, list)):
        for value in answer.values() if isinstance(answer, dict) else answer:
            yield from texts_in(value)


def is_right(row: Mapping[str, Any], field: str, value: int, now_ms: int, began_ms: int) -> bool:
    """Return whether a time can be. One whose name is in none of the sets fails: say there which sort of time it is."""
    assert field in LEFT | AGES | PAST | AHEAD | NOW | SETTINGS, field
    if field in LEFT:
        longest = row.get("session_timeout_ms", row.get("timeout_ms", LONGEST_MS))
        if "deadline_ms" in row:
            longest = row["deadline_ms"] - row["parked_ms"]
        return 0 <= value <= longest
    if field in AGES:
        return 0 <= value <= now_ms - began_ms
    if field in PAST:
        return (value >= 0 if field == "current_ms" else value >= began_ms) and value <= now_ms
    if field in AHEAD:
        return began_ms <= value <= now_ms + LONGEST_MS and row.get("parked_ms", value) <= value
    return value >= 0


@pytest.fixture
async def busy(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Busy]:
    for name, shorter_ms in (("SESSION_MS", 45_000), ("REBALANCE_MS", 60_000)):  # than a reader of a lesson needs
        monkeypatch.setattr(f"purgatorio.admin.learn.clients.member.{name}", shorter_ms)
    settings = {"port": "0", "admin_port": "0", "brokers": "2", "group_initial_rebalance_delay_ms": "0"}
    clock = MovableClock()
    began_ms = clock.now_ms()
    async with Cluster(load_cluster_config(defaults=settings), clock, admin=False) as cluster:
        operator = Operator(cluster, ClusterControl(cluster))
        made = Busy(cluster, clock, operator, {}, began_ms)
        tasks = await _begin(made)
        yield made
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await operator.control.close()


async def _begin(busy: Busy) -> list[asyncio.Task[None]]:
    """Let clients wait for all that there is, and stop the clock."""
    cluster = busy.cluster
    for topic in ("orders", "mails", "held", "empty"):
        await busy.ask(CreateTopic, name=topic, partitions=1, replicas=2)
    stage = Stage(
        SystemClock(),
        lambda: [each.address for each in cluster.brokers],
        lambda: cluster.brokers[0].purgatory_of(LESSON),
    )
    wanted: dict[str, dict[str, Any]] = {
        "silent": {"kind": "member", "group": "billing", "topic": "orders", "partitions": 1},
        "slow": {"kind": "share member", "group": "mailers", "topic": "mails", "is_slow": True},
        "open": {
            "kind": "transactional",
            "topic": "orders",
            "transactional_id": "tx-7",
            "leaves_open": True,
            "timeout_ms": 60_000,
        },
        "reader": {"kind": "consumer", "topic": "orders", "read_committed": True},
        "polls": {"kind": "consumer", "topic": "empty", "max_wait_ms": 10_000},
        "site": {"kind": "producer", "topics": ["mails"], "every_ms": 50},
        "shop": {"kind": "producer", "topics": ["held"], "every_ms": 10_000, "timeout_ms": 60_000},
    }
    tasks = []

    def begin(*names: str) -> None:
        for name in names:
            told = dict(wanted[name])
            client = busy.clients[name] = CLIENTS[told.pop("kind")](stage, name, **told)
            tasks.append(asyncio.get_running_loop().create_task(client.run()))

    begin("silent", "slow", "open", "reader", "polls", "site")
    facts = {name: client.facts for name, client in busy.clients.items()}
    await busy.until(lambda: facts["silent"]["partitions"] and facts["slow"]["held"] and facts["open"]["state"])
    await busy.clients["silent"].fall_silent()
    for broker in cluster.brokers:
        await busy.ask(ChangeFollower, id=broker.broker_id, held=True)
    await busy.ask(AddFault, rule={"api": "Metadata", "client": "nobody", "delay_ms": 5000})
    begin("shop")
    await busy.until(
        lambda: {"Produce", "Fetch", "Heartbeat", "AcquisitionLock", "TransactionTimeout"} <= _kinds(cluster)
    )
    busy.clock.freeze()
    left_ms = 0
    while left_ms < 45_000:  # the share member goes on to send heartbeats, by the machine's time: it has sent one now
        await asyncio.sleep(0.01)
        (slow,) = (await busy.ask(DescribeGroup, id="mailers"))["members"]
        left_ms = slow["session_left_ms"]
    return tasks


def _kinds(cluster: Cluster) -> set[str]:
    return {each.name for broker in cluster.brokers for each in broker.purgatories if each.num_delayed}


# --- what the clock does to them ---

STAYS: Final = {kind.purgatory for kind in KINDS.values() if kind.time is Time.MEMBERS}
"""The purgatories whose deadlines do not move, since members cannot send heartbeats at that pace."""
NAMES: Final = ("purgatory", "name", "id", "member_id", "topic", "partition", "first_offset", "kind", "actor", "broker")


async def test_no_time_is_wrong_whatever_is_done_to_the_clock(busy: Busy) -> None:
    """Moved, beyond deadlines and sessions; gone on, with operations and sessions ended by hand, and after a reset."""
    assert await busy.wrong() == []
    for seconds, sessions in ((SECONDS, False), (SECONDS, False), (30.0, False), (60.0, True), (1000.0, False)):
        ended = await busy.ask(AdvanceClock, seconds=seconds, sessions=sessions)
        assert await busy.wrong(("AdvanceClock", ended)) == []
    busy.clock.unfreeze()
    assert await busy.wrong() == []
    await busy.ask(ApplyRetention)
    await busy.ask(ExpireLocks, id="mailers")
    for row in (await busy.ask(ListParked))["parked"][:3]:
        await busy.ask(Expire, id=row["broker"], name=row["purgatory"], operation=row["id"])
    assert await busy.wrong() == []
    await busy.ask(Reset)
    assert await busy.wrong() == []


async def test_the_session_of_a_member_is_never_over_while_it_sends_heartbeats(busy: Busy) -> None:
    await busy.ask(AdvanceClock, seconds=100.0)
    (silent,) = (await busy.ask(DescribeGroup, id="billing"))["members"]
    assert 0 < silent["session_left_ms"] <= silent["session_timeout_ms"]
    await busy.ask(AdvanceClock, seconds=100.0, sessions=True)
    with contextlib.suppress(NotThere):  # an empty group without offsets is gone
        assert (await busy.ask(DescribeGroup, id="billing"))["members"] == []


async def test_each_time_moves_as_far_as_the_clock_or_not_at_all(busy: Busy) -> None:
    """Sessions of members stay as they are; all else that waits or lasts does so by the moved clock."""
    before = {place: found for name, answer in await busy.answers() for place, found in named_times(answer, name)}
    await busy.ask(AdvanceClock, seconds=SECONDS)
    after = {place: found for name, answer in await busy.answers() for place, found in named_times(answer, name)}
    both = before.keys() & after.keys()
    moved_ms = round(SECONDS * 1000)
    wrong = {
        place: change
        for place in sorted(both)
        if (change := after[place] - before[place]) != (expected := expected_move(place, moved_ms))
        and expected is not None
    }
    assert wrong == {}
    seen = {place.rpartition(".")[2] for place in both}
    assert seen >= LEFT | {"age_ms", "idle_ms", "open_ms", "waited_ms", "parked_ms", "deadline_ms", "now_ms"}


def named_times(answer: Any, place: str) -> Iterator[tuple[str, float]]:
    """Yield all times in a document with their places, where a list's rows are named by what they are about."""
    if isinstance(answer, dict):
        for name, value in answer.items():
            if isinstance(value, (dict, list)):
                yield from named_times(value, f"{place}.{name}")
            elif name.endswith("_ms") and isinstance(value, (int, float)):
                yield f"{place}.{name}", value
    elif isinstance(answer, list):
        for value in answer:
            if isinstance(value, dict):
                yield from named_times(
                    value, f"{place}[{' '.join(str(value[name]) for name in NAMES if name in value)}]"
                )


def expected_move(place: str, moved_ms: int) -> int | None:
    """Return by how much a time changes; None: a wheel goes in steps, and other long polls wait now."""
    _, _, field = place.rpartition(".")
    if "NoRecordsYet" in place or "positions[" in place or field in ("current_ms", "expiration_ms"):
        return None
    if field in SETTINGS or "finished[" in place:
        return moved_ms if field == "now_ms" else 0
    stays = field == "session_left_ms" or any(name in place for name in STAYS)
    if field in LEFT:
        return 0 if stays else -moved_ms
    if field in AGES:
        return 0 if stays else moved_ms
    if field in ("parked_ms", "deadline_ms"):
        return moved_ms if stays else 0
    if field in ("now_ms", "wall_ms"):
        return moved_ms
    return 0
