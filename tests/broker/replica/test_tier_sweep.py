"""Tests of what is deleted when topics are: whoever led them, and whoever was the controller."""

from __future__ import annotations

import asyncio

import pytest

from purgatorio.broker.metadata.image import ClusterImage, PartitionState, Topic
from purgatorio.broker.replica.tier_sweep import GRACE_MS, SWEEP_MS, Sweep
from purgatorio.broker.tier import claim
from purgatorio.broker.tier.claim import CHECK_MS, ClaimLost, StoreClaim
from purgatorio.broker.tier.names import topic_folder, topic_in
from purgatorio.broker.tier.store import Refused
from purgatorio.purgatory.clock import ManualClock
from tests.broker.tier.stores import TestStore

TIERED = {"remote.storage.enable": "true"}
STATE = PartitionState(1, 0, (1,), ())
INTERVAL_MS = 30_000


class Swept:
    """A store with objects of topics, and the broker that sweeps it."""

    def __init__(self, *topics: str) -> None:
        self.store, self.clock, self.is_controller = TestStore(), ManualClock(), True
        self.claim = StoreClaim(self.store, self.clock, "shop", "owner")
        self.image = ClusterImage(version=1, cluster_id="shop")
        self.has(*topics)
        for name in topics:
            self.copy(name)
        self.sweep = self.sweeper()

    def sweeper(self) -> Sweep:
        return Sweep(self.store, self.claim, self.clock, lambda: self.image, lambda: self.is_controller)

    def has(self, *names: str, configs: dict[str, str] | None = None) -> None:
        """Make an image with these topics."""
        topics = [Topic(name, topic_id(name), (STATE,), TIERED if configs is None else configs) for name in names]
        by_name = {topic.name: topic for topic in topics}
        self.image = ClusterImage(version=self.image.version + 1, cluster_id="shop", topics=by_name)

    def copy(self, name: str, segment: str = "s") -> None:
        for partition in range(2):
            for end in (".log", ".json"):
                key = f"{topic_folder('shop', topic_id(name))}{partition}/{segment}{end}"
                self.store.objects[key] = b"x"

    @property
    def left(self) -> list[str]:
        """The topics that have objects."""
        ids = {topic_in(key) for key in self.store.objects}
        return [name for name in ("orders", "bills", "carts") if topic_id(name) in ids]

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.store.calls]


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"-")


async def test_the_objects_of_a_deleted_topic_go_at_once_and_its_descriptions_first() -> None:
    swept = Swept("orders", "bills")
    await swept.sweep.sweep()
    swept.has("bills")
    swept.store.calls.clear()
    await swept.sweep.sweep()
    assert swept.left == ["bills"]
    assert swept.store.calls[1:] == [("delete", "json")] * 2 + [("delete", "log")] * 2
    assert swept.sweep.deleted == 4


async def test_a_leader_that_has_not_heard_of_the_deletion_leaves_nothing_either() -> None:
    swept = Swept("orders")
    await swept.sweep.sweep()
    swept.has()
    await swept.sweep.sweep()
    swept.copy("orders", "late")
    swept.clock.advance_ms(INTERVAL_MS)
    await swept.sweep.sweep()
    assert swept.left == []
    swept.clock.advance_ms(INTERVAL_MS)
    await swept.sweep.sweep()
    swept.store.calls.clear()
    await swept.sweep.sweep()
    assert swept.store.calls == [], "it is done with"


async def test_a_topic_that_was_made_anew_under_the_name_of_a_deleted_one_keeps_its_own() -> None:
    swept = Swept("orders")
    await swept.sweep.sweep()
    fresh = Topic("orders", b"*" * 16, (STATE,), TIERED)
    swept.image = ClusterImage(version=9, cluster_id="shop", topics={"orders": fresh})
    swept.store.objects[f"{topic_folder('shop', b'*' * 16)}0/s.log"] = b"x"
    await swept.sweep.sweep()
    assert [topic_in(key) for key in swept.store.objects if topic_in(key)] == [b"*" * 16]


async def test_a_topic_that_was_deleted_unseen_goes_after_a_while() -> None:
    swept = Swept("orders", "bills")
    swept.has("bills")
    await swept.sweep.sweep()
    assert swept.left == ["orders", "bills"], "it may be new, and the image old"
    swept.clock.advance_ms(GRACE_MS - 1)
    await swept.sweep.sweep()
    assert swept.left == ["orders", "bills"]
    swept.clock.advance_ms(1)
    await swept.sweep.sweep()
    assert swept.left == ["bills"]


async def test_a_topic_of_which_the_image_hears_late_stays() -> None:
    swept = Swept("orders")
    swept.copy("carts")
    await swept.sweep.sweep()
    swept.has("orders", "carts")
    swept.clock.advance_ms(GRACE_MS)
    await swept.sweep.sweep()
    assert swept.left == ["orders", "carts"]


async def test_all_objects_are_listed_at_the_start_and_once_an_hour() -> None:
    swept = Swept("orders")
    for _ in range(3):
        await swept.sweep.sweep()
        swept.clock.advance_ms(INTERVAL_MS)
    assert swept.kinds == ["list"]
    swept.clock.advance_ms(SWEEP_MS)
    await swept.sweep.sweep()
    await swept.sweep.sweep()
    assert swept.kinds == ["list"] * 2
    await swept.sweep.sweep(lists_all=True)
    assert swept.kinds == ["list"] * 3


async def test_deleted_topics_without_a_tier_cost_nothing() -> None:
    swept = Swept()
    swept.has("orders", configs={})
    await swept.sweep.sweep()
    swept.store.calls.clear()
    swept.has()
    await swept.sweep.sweep()
    assert swept.store.calls == []


async def test_only_the_controller_sweeps_and_a_new_one_begins_with_a_list() -> None:
    swept = Swept("orders")
    swept.is_controller = False
    await swept.sweep.sweep()
    swept.has()
    await swept.sweep.sweep()
    assert (swept.store.calls, swept.left) == ([], ["orders"])
    swept.is_controller = True
    await swept.sweep.sweep()
    assert swept.kinds == ["list"]
    swept.clock.advance_ms(GRACE_MS)
    await swept.sweep.sweep()
    assert swept.left == []


async def test_a_store_that_refuses_is_swept_on_by_the_next_call() -> None:
    swept = Swept("orders")
    await swept.sweep.sweep()
    swept.has()
    swept.store.troubles["delete"] = [None, Refused("no")]
    with pytest.raises(Refused):
        await swept.sweep.sweep()
    await swept.sweep.sweep()
    assert swept.left == []


async def test_what_another_cluster_has_claimed_is_not_swept() -> None:
    swept = Swept("orders")
    await swept.sweep.sweep()
    await StoreClaim(swept.store, swept.clock, "shop", "another").hold()
    swept.clock.advance_ms(CHECK_MS)
    swept.has()
    with pytest.raises(ClaimLost):
        await swept.sweep.sweep()
    assert swept.left == ["orders"]


async def test_a_claim_that_is_lost_within_a_sweep_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "CHECK_MS", 0)
    swept = Swept("orders")
    await swept.sweep.sweep()
    swept.has()
    delete = swept.store.delete

    async def delete_and_claim(key: str) -> None:
        await delete(key)
        await StoreClaim(swept.store, swept.clock, "shop", "another").hold()

    monkeypatch.setattr(swept.store, "delete", delete_and_claim)
    with pytest.raises(ClaimLost):
        await swept.sweep.sweep()
    assert swept.kinds.count("delete") == 1


async def test_it_goes_on_after_a_failure() -> None:
    swept = Swept("orders")
    swept.has()
    swept.store.troubles["list"] = [Refused("no")]
    task = asyncio.create_task(swept.sweep.run(INTERVAL_MS))
    await swept.clock.run_for(0)
    assert swept.left == ["orders"]
    await swept.clock.run_for(INTERVAL_MS)
    await swept.clock.run_for(GRACE_MS)
    assert swept.left == []
    task.cancel()
    await asyncio.wait([task])
