"""What fault rules do to calls of the tier's object store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from purgatorio.broker.causes.words import in_words
from purgatorio.broker.layers.faults import FaultError, FaultyStore, LiveTierRule, TierRule, parse_fault
from purgatorio.broker.tier.store import MemoryStore, Refused, Unavailable
from tests.broker.layers.faults.harness import IDS, FakeBroker

(ORDERS_ID,) = IDS
ORDERS = f"cluster/{ORDERS_ID.hex()}/0/"
OTHER = f"cluster/{b'?'.hex() * 16}/0/"
TURNS = 5


@pytest.fixture
def real() -> MemoryStore:
    made = MemoryStore()
    made.objects = {f"{ORDERS}a": b"0123456789", f"{OTHER}b": b"x"}
    return made


@pytest.fixture
def store(real: MemoryStore) -> FaultyStore:
    return FaultyStore(real)


@pytest.fixture
def broker(store: FaultyStore) -> FakeBroker:
    return FakeBroker({}, store)


def add(to: FakeBroker, **data: Any) -> LiveTierRule:
    parsed = parse_fault(data)
    assert isinstance(parsed, TierRule)
    return to.faults.add(parsed)


async def turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def test_without_rules_a_call_is_the_stores(store: FaultyStore, real: MemoryStore) -> None:
    await store.put("c", [b"1"], create=True)
    assert bytes(await store.get("c", 0, 9)) == b"1"
    assert [each.key for each in await store.list("cluster/")] == sorted((f"{ORDERS}a", f"{OTHER}b"))
    await store.delete("c")
    assert "c" not in real.objects
    assert store.location == real.location


async def test_a_held_call_waits_says_by_which_rule_and_goes_on_when_it_is_removed(
    broker: FakeBroker, store: FaultyStore
) -> None:
    rule = add(broker, tier="get", topic="orders", hold=True)
    getting = asyncio.create_task(store.get(f"{ORDERS}a", 2, 3))
    await turns()
    assert bytes(await store.get(f"{OTHER}b", 0, 1)) == b"x"  # the rule is not about it
    assert (getting.done(), rule.held) == (False, 1)
    (parked,) = broker.purgatory.operations()
    assert in_words(parked.causes) == "tier get: fault 1 holds it until it is released"
    assert list(map(str, parked.keys)) == ["fault 1", "orders-0"]
    assert (store.held_by(f"{ORDERS}a"), store.held_by(""), store.held_by(OTHER)) == (rule.id, rule.id, None)
    rule.release()
    assert bytes(await getting) == b"234"
    assert (store.held_by(""), broker.purgatory.num_delayed) == (None, 0)
    (fired,) = broker.faults.fired
    assert (fired.api, fired.partitions, fired.action) == ("tier get", ("orders-0",), "held")


async def test_a_held_call_that_is_given_up_leaves_nothing(broker: FakeBroker, store: FaultyStore) -> None:
    rule = add(broker, tier="list", hold=True, name="slow")
    listing = asyncio.create_task(store.list(ORDERS))
    await turns()
    assert store.held_by(ORDERS) == rule.id
    listing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listing
    assert (rule.held, broker.purgatory.num_delayed, store.held_by("")) == (0, 0, None)


async def test_a_delayed_call_goes_on_by_the_brokers_clock(broker: FakeBroker, store: FaultyStore) -> None:
    add(broker, tier="get", delay_ms=700, truncate_bytes=4)
    getting = asyncio.create_task(store.get(f"{ORDERS}a", 0, 10))
    await turns()
    broker.passes(699)
    await turns()
    assert not getting.done()
    assert store.held_by(ORDERS) == 1
    broker.passes(1)
    assert bytes(await getting) == b"0123"


async def test_an_error_is_the_stores_and_a_rule_that_is_spent_acts_no_more(
    broker: FakeBroker, store: FaultyStore
) -> None:
    add(broker, tier="get", error="Unavailable", count=1)
    with pytest.raises(Unavailable, match=r"^Unavailable, by fault 1$"):
        await store.get(f"{ORDERS}a", 0, 1)
    assert bytes(await store.get(f"{ORDERS}a", 0, 1)) == b"0"
    add(broker, tier="list", error="Refused", nth=2)
    await store.list(ORDERS)
    with pytest.raises(Refused):
        await store.list(ORDERS)
    await store.list(ORDERS)


async def test_bytes_are_wrong_where_a_rule_corrupts_them(
    broker: FakeBroker, store: FaultyStore, real: MemoryStore
) -> None:
    add(broker, tier="get", corrupt=True)
    assert bytes(await store.get(f"{ORDERS}a", 0, 3)) == b"013"
    broker.faults.clear()
    add(broker, tier="put", corrupt=True)
    await store.put("c", [b"01", b"", b"2"], create=True)
    await store.put("d", [], create=True)
    assert (real.objects["c"], real.objects["d"]) == (b"013", b"")


async def test_a_lost_write_and_a_lost_deletion_claim_success(
    broker: FakeBroker, store: FaultyStore, real: MemoryStore
) -> None:
    before = dict(real.objects)
    add(broker, tier="put", lose=True)
    add(broker, tier="delete", lose=True)
    await store.put("c", [b"1"], create=True)
    await store.delete(f"{ORDERS}a")
    assert real.objects == before


async def test_the_newest_rule_of_the_broker_that_matches_acts(broker: FakeBroker, store: FaultyStore) -> None:
    add(broker, tier="get", error="Refused")
    newest = add(broker, tier="get", partition=0, topic="orders", truncate_bytes=1)
    elsewhere = add(broker, tier="get", broker=2, truncate_bytes=0)
    assert bytes(await store.get(f"{ORDERS}a", 0, 3)) == b"0"
    newest.release()
    with pytest.raises(Refused):
        await store.get(f"{ORDERS}a", 0, 3)
    assert elsewhere.matched == 0


async def test_a_broker_that_has_ended_meets_no_rule_as_its_end_is_kept_in_the_store(
    broker: FakeBroker, store: FaultyStore
) -> None:
    add(broker, tier="put", hold=True)
    broker.detach()
    await asyncio.wait_for(store.put("c", [b"1"], create=True), 5)


async def test_a_rule_meets_a_broker_that_comes_later(real: MemoryStore) -> None:
    early = FakeBroker({})
    with pytest.raises(FaultError, match="the brokers have no tier"):
        add(early, tier="get", hold=True)
    late = FakeBroker({}, store := FaultyStore(real))
    live = add(late, tier="list", error="Refused")
    late.attach()
    with pytest.raises(Refused):
        await store.list(ORDERS)
    assert live.fired == 1
