"""The texts of each step hold for a quarter of an hour: a reader may take so long, and the cluster's time goes on."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import pytest

from purgatorio.admin.learn.playing import Playing
from purgatorio.admin.learn.scene import scenes
from purgatorio.admin.operations.control.clock_control import ClockControl
from purgatorio.admin.operations.reading.waits import read_waits
from purgatorio.broker.time.movable_clock import MovableClock
from tests.admin.learn.conftest import Taught

STAYS_SECONDS: Final = 900
LOOKS: Final = 9
CLAIMS: Final[dict[str, list[list[str]]]] = {
    "acks-all": [
        ["orders-0.isr = 3", "orders-0.leader = 1"],
        ["waits for FollowerBehind 3", "shop.ack_ms >= 400", "orders-0.isr = 3"],
        ["later shop.ack_ms < 400", "orders-0.isr = 3"],
    ],
    "long-poll": [
        ["dashboard.poll_ms <= 1500"],
        ["waits for NoRecordsYet consumer-fetch.min.bytes", "dashboard.poll_ms <= 51000"],
        ["dashboard.position >= 100"],
    ],
    "timeout": [
        ["shop.refused = 0"],
        ["waits for FollowerBehind 3", "shop.error = REQUEST_TIMED_OUT", "shop.last = REQUEST_TIMED_OUT"],
        ["shop.last = acknowledged", "shop.error = REQUEST_TIMED_OUT"],
    ],
    "leader-dies": [
        ["orders-0.leader = 1", "orders-0.isr = 3"],
        ["shop.acked >= 3"],
        ["orders-0.isr = 3", "orders-0.leader_epoch >= 1", "shop.last = acknowledged"],
    ],
    "min-isr": [
        ["ledger-0.isr = 3", "bank.refused = 0"],
        ["ledger-0.isr <= 3"],
        ["ledger-0.isr = 2", "bank.error = NOT_ENOUGH_REPLICAS"],
        ["ledger-0.isr = 3", "bank.last = acknowledged"],
    ],
    "rebalance": [
        ["anna.partitions = 3", "ben.partitions = 3"],
        ["waits for MembersToJoin workers"],
        ["anna.partitions = 3", "carl.partitions = 3"],
    ],
    "static-members": [
        ["till.partitions = 4", "anna.partitions = 4", "till.joins = 1"],
        ["till.partitions = 4", "till.joins = 2", "till.generation = 1"],
        ["group office waits", "anna.partitions = 4", "ben.partitions = 0"],
        ["anna.partitions = 2", "ben.partitions = 2"],
    ],
    "open-transaction": [
        ["till.commits >= 1"],
        ["waits for OpenTransaction till-1", "till.state = open"],
        ["till.state = committed"],
    ],
    "zombie": [
        ["waits for OpenTransaction till", "old.last = written", "auditor.position = 0"],
        ["waits for OpenTransaction till", "new.last = written", "old.last = written"],
        ["old.last = INVALID_PRODUCER_EPOCH", "new.last = written"],
    ],
    "quota": [
        ["crawler.refused = 0", "crawler.ack_ms < 500"],
        ["crawler.refused = 0", "later crawler.ack_ms > 500"],
        ["crawler.refused = 0", "later crawler.ack_ms < 500"],
    ],
    "share-lock": [
        ["slow.locked = 50"],
        ["slow.locked = 50", "waits for RecordsLocked mailers", "quick.deliveries <= 1"],
        ["slow.locked = 0", "quick.deliveries = 2"],
    ],
    "wheel": [
        ["timers.waiting = 100000", "timers.expired = 0"],
        ["timers.waiting = 50000", "timers.cancelled = 50000", "timers.expired = 0"],
        ["timers.expired >= 4000", "timers.cancelled = 50000"],
    ],
    "tier": [
        ["journal-0.log_end_offset = 20", "writer.acked = 1"],
        ["journal-0.log_end_offset = 20", "journal-0.local_start_offset = 20"],
        ["waits for TierRead the memory store", "reader.position = 0", "journal-0.local_start_offset = 20"],
        ["reader.position = 25", "journal-0.log_end_offset = 25"],
    ],
}
"""The claims of each step's texts, by scene: figures, what requests wait for, and that a group waits. A number that is
compared with a text is here, and none may come to contradict it. `later`: a median, which follows in a while, and may
be off in one look, since moving the clock ends the waits that it is of."""


def untrue(playing: Playing, claims: list[str], look: int) -> list[str]:
    """Return the claims that do not hold now."""
    due = [claim.removeprefix("later ") for claim in claims if look or not claim.startswith("later ")]
    return [claim for claim in due if not holds(playing, claim)]


def holds(playing: Playing, claim: str) -> bool:
    name, relation, wanted = claim.split(maxsplit=2) if not claim.endswith(" waits") else ("", "group", claim)
    if name == "waits":
        waits = read_waits(playing._operator.cluster.brokers, playing._operator.image)
        return wanted in [f"{each['kind']} {each['actor']}" for each in waits]
    if relation == "group":
        return playing.why(playing.scene.steps[playing.at]) != ""
    value: Any = playing._value(name)
    expected: Any = int(wanted) if wanted.isdigit() else wanted
    compared = {"=": value == expected, "!=": value != expected}
    if isinstance(value, int) and isinstance(expected, int):
        compared |= {">=": value >= expected, "<=": value <= expected, "<": value < expected, ">": value > expected}
    return compared[relation]


def test_each_step_of_each_scene_makes_claims() -> None:
    assert {name: len(scene.steps) for name, scene in scenes().items()} == {
        name: len([claims for claims in steps if claims]) for name, steps in CLAIMS.items()
    }


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", scenes())
async def test_a_reader_may_stay_at_each_step_for_a_quarter_of_an_hour(taught: Taught, name: str) -> None:
    clock = taught.cluster.clock
    assert isinstance(clock, MovableClock)
    await taught.lessons.start(name)
    playing = taught.lessons.playing
    assert playing is not None
    found: list[tuple[str, int, str]] = []
    for nth, claims in enumerate(CLAIMS[name]):
        if nth:
            await taught.lessons.step(name, None)
        for look in range(LOOKS + 1):
            found += [(playing.scene.steps[nth].button, look, claim) for claim in untrue(playing, claims, look)]
            if look < LOOKS:
                await ClockControl(taught.cluster).advance(STAYS_SECONDS / LOOKS, sessions=True)
    await taught.lessons.stop(name)
    medians = {
        claim.removeprefix("later ") for claims in CLAIMS[name] for claim in claims if claim.startswith("later ")
    }
    missed = Counter((button, claim) for button, _, claim in found)
    assert [each for each in found if each[2] not in medians or missed[each[0], each[2]] > 1] == []
