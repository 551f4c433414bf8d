"""The rounds in which leaders copy, and followers learn what is copied."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from purgatorio.broker.replica.tiering import AT_ONCE, FIRST_BACKOFF_MS, LIST_MS, MAX_ASKED, UNHEARD_MS
from purgatorio.broker.tier.claim import CHECK_MS, StoreClaim
from purgatorio.broker.tier.names import segment_of
from purgatorio.broker.tier.remote_log import DESCRIPTION_TRIES
from purgatorio.broker.tier.store import Refused, StoredObject, Unavailable
from purgatorio.protocol.compression import Buffer
from purgatorio.protocol.errors import ErrorCode
from tests.broker.replica.harness import topic
from tests.broker.replica.tiered import ORDERS, TIERED, Tiered, bases, record_batch, tiered
from tests.broker.tier.stores import TestStore
from tests.error_log import ErrorLog


async def test_a_leader_lists_once_in_an_epoch_and_copies_what_is_closed() -> None:
    async with tiered(copies=False) as broker:
        broker.fill()
        await broker.tiering.round()
        await broker.tiering.round()
        assert [kind for kind, _ in broker.store.calls] == ["list"] + ["put"] * 6
        broker.fill(2)
        broker.store.calls.clear()
        await broker.tiering.round()
        assert [kind for kind, _ in broker.store.calls] == ["put"] * 2
        broker.set_topics(topic(leader_epoch=1, partition_epoch=1, replicas=(1,), **TIERED))
        broker.store.calls.clear()
        await broker.tiering.round()
        assert [kind for kind, _ in broker.store.calls] == ["list"]


async def test_topics_without_a_tier_are_not_copied() -> None:
    async with tiered(copies=False, remote_storage_enable="false") as broker:
        broker.fill()
        await broker.tiering.round()
        assert broker.store.calls == []


def follower_of(leader: Tiered, count: int, *, leader_epoch: int = 0) -> Tiered:
    """Broker 1 as a follower that has the first batches of a leader."""
    follower = Tiered(leader.store)
    follower.set_topics(topic(leader=2, replicas=(1, 2), leader_epoch=leader_epoch, **TIERED))
    log = follower.partition().log
    for number in range(count):
        log.append_as_leader(record_batch(1_700_000_000_000 + number), leader_epoch=0, wall_ms=1_700_000_000_000)
    log.commit_to(count)
    return follower


def successor_of(earlier: Tiered) -> Tiered:
    """A broker that was elected in epoch 1 although its replica is empty, while the tier has six batches."""
    successor = Tiered(earlier.store)
    successor.set_topics(topic(leader_epoch=1, partition_epoch=1, replicas=(1,), **TIERED))
    earlier.store.calls.clear()
    return successor


async def test_an_empty_replica_that_is_elected_begins_behind_what_the_tier_has() -> None:
    async with tiered() as earlier:
        successor = successor_of(earlier)
        partition, log = successor.partition(), successor.partition().log
        assert not partition.is_leader  # or what it appends would take the place of what the tier has
        await successor.tiering.round()
        assert partition.is_leader
        assert (log.log_start_offset, log.local_start_offset, log.log_end_offset, log.high_watermark) == (0, 6, 6, 6)
        assert log.epochs.entries == [(0, 0), (1, 6)]
        successor.fill(3)
        await successor.tiering.round()
        assert "delete" not in [kind for kind, _ in earlier.store.calls]
        assert log.copied_to == 8


async def test_an_empty_replica_does_not_lead_until_the_tier_says_what_it_has() -> None:
    async with tiered() as earlier:
        successor = successor_of(earlier)
        earlier.store.troubles["list"] = [Unavailable("503")]
        await successor.tiering.round()
        assert not successor.partition().is_leader
        assert successor.tiering.trouble == "503"
        successor.tiering._begin_by(0)
        await successor.tiering.round()
        assert successor.partition().is_leader


async def test_an_empty_replica_does_not_lead_while_the_store_looks_empty_since_its_disk_is_away() -> None:
    async with tiered() as earlier:
        successor, store = successor_of(earlier), earlier.store
        await successor.tiering._copier.claim.hold()
        successor.advance_ms(1)
        before, store.objects = store.objects, {}
        await successor.tiering.round()
        assert not successor.partition().is_leader
        assert "does not have claim 1 of this cluster any more" in successor.tiering.trouble
        assert store.objects == {}
        store.objects = before
        await successor.tiering.round()
        assert successor.partition().is_leader
        assert successor.partition().log.log_end_offset == 6


async def test_what_is_left_at_the_end_is_not_copied_to_a_store_that_was_emptied() -> None:
    async with tiered() as broker:
        broker.advance_ms(1)
        broker.store.objects = {}
        with pytest.raises(Unavailable, match="does not have claim 1"):
            await broker.tiering.copy_all(broker.partition())
        assert broker.store.objects == {}


async def test_an_empty_replica_leads_if_the_tier_has_nothing() -> None:
    async with tiered(copies=False) as earlier:
        successor = successor_of(earlier)
        await successor.tiering.round()
        assert successor.partition().is_leader
        assert successor.partition().log.log_end_offset == 0


async def test_an_empty_replica_does_not_begin_behind_a_damaged_segment() -> None:
    async with tiered() as earlier:
        key = next(key for key in earlier.store.objects if key.endswith(".json"))
        earlier.store.objects[key] = b"{}"
        successor = successor_of(earlier)
        await successor.tiering.round()
        assert not successor.partition().is_leader
        assert "remove its .json and .log" in successor.tiering.trouble
        del earlier.store.objects[key], earlier.store.objects[key.replace(".json", ".log")]
        await successor.tiering.round()
        assert successor.partition().is_leader
        assert successor.partition().log.log_start_offset == 2


async def test_a_follower_asks_its_leader_what_is_copied_and_deletes_its_own() -> None:
    async with tiered() as leader:
        follower = follower_of(leader, 7)
        log = follower.partition().log
        await follower.copy()
        await follower.copy()
        assert follower.tiering.take_to_ask(2) == [follower.partition()]
        assert follower.tiering.take_to_ask(2) == []
        follower.tiering.copied_by_leader(follower.partition(), 5, 0)
        await follower.copy()
        assert (log.copied_to, log.log_start_offset, log.local_start_offset) == (6, 0, 4)
        await follower.copy()
        assert follower.tiering.take_to_ask(2) == []
        assert leader.store.calls == []
        follower.set_topics(topic(replicas=(1, 2), leader_epoch=1, partition_epoch=1, **TIERED))
        await follower.copy()
        assert (log.copied_to, log.epochs.entries) == (6, [(0, 0), (1, 7)])
        assert leader.store.calls == [("list", "test/" + log_folder(follower))] + [("get", "json")] * 3


def log_folder(broker: Tiered) -> str:
    return broker.tiering.remote_of(broker.partition()).folder.partition("/")[2]


@pytest.mark.parametrize(
    ("count", "leader_epoch", "answer", "copied_to"),
    [
        (7, 0, (5, 0), 6),
        (7, 0, (6, 0), 7),
        (7, 1, (5, 0), 6),
        (7, 1, (5, 1), 0),  # the leader has other records there, which the follower learns with its next fetch
        (5, 0, (7, 0), 5),  # the follower is behind, and all it has is the leader's
        (5, 1, (7, 0), 4),  # it may be: the store says which copies are of this log
    ],
)
async def test_what_the_leader_has_copied_counts_for_a_follower_with_the_same_records(
    count: int, leader_epoch: int, answer: tuple[int, int], copied_to: int
) -> None:
    async with tiered() as leader:
        follower = follower_of(leader, count, leader_epoch=leader_epoch)
        follower.tiering.copied_by_leader(follower.partition(), *answer)
        await follower.tiering.round()
        assert follower.partition().log.copied_to == copied_to


async def test_a_follower_asks_the_leader_that_it_has_and_not_too_much_at_once() -> None:
    async with tiered() as leader:
        follower = Tiered(leader.store)
        count = follower.replicas.roles.roles_per_step = MAX_ASKED + 1
        follower.set_topics(topic(leader=2, replicas=(1, 2), partitions=count, **TIERED))
        for partition in follower.replicas.partitions.values():
            for _ in range(3):
                partition.log.append_as_leader(record_batch(), leader_epoch=0, wall_ms=1_700_000_000_000)
        await follower.tiering.round()
        assert len(follower.tiering.take_to_ask(2)) == MAX_ASKED
        moved = topic(leader=3, replicas=(1, 3), leader_epoch=1, partition_epoch=1, partitions=count, **TIERED)
        follower.set_topics(moved)
        assert follower.tiering.take_to_ask(2) == []
        await follower.tiering.round()
        assert len(follower.tiering.take_to_ask(3)) == MAX_ASKED


class LookedAt(dict[Any, Any]):
    """Replicas that know which of them were looked at, and whether all were; a dict, as compiled code wants one."""

    def __init__(self, replicas: Mapping[Any, Any]) -> None:
        super().__init__(replicas)
        self.names = set[Any]()

    def get(self, name: Any, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)

    def __getitem__(self, name: Any) -> Any:
        self.names.add(name)
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[Any]:
        self.names.add("all")
        return super().__iter__()

    def values(self) -> Any:
        self.names.add("all")
        return super().values()

    def items(self) -> Any:
        self.names.add("all")
        return super().items()


async def test_partitions_in_which_nothing_changes_cost_nothing() -> None:
    """Neither a call of the store nor a look at their logs, however many they are."""
    async with tiered(copies=False) as broker:
        broker.set_topics(topic(replicas=(1,), partitions=50, partition_epoch=1, **TIERED))
        await broker.tiering.round()
        assert [kind for kind, _ in broker.store.calls] == ["list"] * 50
        broker.store.calls.clear()
        broker.replicas.lookup.partitions = looked_at = LookedAt(broker.replicas.lookup.partitions)
        broker.fill(2)
        looked_at.names.clear()
        await broker.tiering.round()
        assert (broker.store.calls, looked_at.names) == ([], set())
        broker.fill(1)
        looked_at.names.clear()
        await broker.tiering.round()
        assert [kind for kind, _ in broker.store.calls] == ["put"] * 2
        assert looked_at.names == {ORDERS}
        looked_at.names.clear()
        await broker.tiering.round()
        assert looked_at.names == set()


async def test_a_closed_segment_waits_for_its_last_stable_offset_without_calls() -> None:
    async with tiered(replicas=(1, 2), copies=False) as broker:
        broker.fill(3)
        for _ in range(2):
            await broker.tiering.round()
        assert [kind for kind, _ in broker.store.calls] == ["list"]
        broker.follow((2, 3))
        await broker.tiering.round()
        assert [kind for kind, _ in broker.store.calls] == ["list", "put", "put"]


async def test_a_partition_is_looked_after_when_its_time_has_come() -> None:
    async with tiered(copies=False) as broker:
        for ms in (3_000, 1_000, 2_000):
            broker.tiering.note_at(ORDERS, broker.clock.wall_ms() + ms)
        await broker.tiering.round()
        broker.store.calls.clear()
        broker.partition().remote = None
        broker.clock.advance_ms(999)
        await broker.tiering.round()
        assert broker.store.calls == []
        broker.clock.advance_ms(1)
        await broker.tiering.round()
        broker.partition().remote = None
        broker.clock.advance_ms(9_000)
        await broker.tiering.round()
        assert [kind for kind, _ in broker.store.calls] == ["list"]


class Stuck(TestStore):
    """A store that does not take the objects of some folders."""

    def __init__(self) -> None:
        super().__init__()
        self.stuck = asyncio.Event()
        self.folders: Sequence[str] = ()

    async def put(self, key: str, parts: Sequence[Buffer], *, create: bool) -> None:
        if key.rpartition("/")[0] + "/" in self.folders:
            await self.stuck.wait()
        await super().put(key, parts, create=create)


async def test_a_partition_that_is_slow_leaves_the_others_and_is_copied_once() -> None:
    broker = Tiered(Stuck())
    store = broker.store
    assert isinstance(store, Stuck)
    broker.set_topics(topic(replicas=(1,), partitions=AT_ONCE + 1, **TIERED))
    partitions = list(broker.replicas.partitions.values())
    slow = partitions[: AT_ONCE - 1]
    store.folders = [broker.tiering.remote_of(each).folder for each in slow]
    for tp in broker.replicas.partitions:
        for number in range(3):
            broker.produce(tp, acks=1, records=record_batch(1_700_000_000_000 + number))
    task = asyncio.create_task(broker.tiering.run())
    try:
        await broker.clock.run_for(3_000)
        assert [each.log.copied_to for each in partitions] == [0] * len(slow) + [2, 2]
        broker.tiering.list_soon(slow[0])
        broker.tiering.list_soon(partitions[-1])
        store.calls.clear()
        await broker.clock.run_for(0)
        assert [kind for kind, _ in store.calls] == ["list"], "what is at work is not listed meanwhile"
        broker.tiering.allow(copies=1, reads=1)
        store.stuck.set()
        await broker.clock.run_for(1_000)
        assert [each.log.copied_to for each in partitions] == [2] * len(partitions)
        assert len(store.objects) == 2 * len(partitions) + 1, "with the claim"
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_store_that_fails_keeps_everything_and_is_asked_again_later() -> None:
    async with tiered(copies=False) as broker:
        broker.fill()
        broker.store.troubles["put"] = [Refused("disk full")]
        await broker.copy()
        assert (broker.tiering.trouble, broker.partition().log.local_start_offset) == ("disk full", 0)
        assert broker.tiering.trouble_since_ms == broker.clock.now_ms()
        await broker.copy()
        assert (broker.tiering.trouble, broker.partition().log.local_start_offset) == ("", 4)
        assert broker.tiering.trouble_since_ms is None


async def test_rounds_come_in_their_interval_and_sooner_after_trouble_or_a_wish() -> None:
    async with tiered(copies=False) as broker:
        broker.fill(3)
        broker.store.troubles["list"] = [Unavailable("503")]
        task = asyncio.create_task(broker.tiering.run())
        try:
            await broker.clock.run_for(FIRST_BACKOFF_MS - 1)
            assert broker.partition().log.copied_to == 0
            await broker.clock.run_for(1)
            assert broker.partition().log.copied_to == 2
            broker.fill(2)
            await broker.clock.run_for(999)
            assert broker.partition().log.copied_to == 2
            await broker.clock.run_for(1)
            assert broker.partition().log.copied_to == 4
            broker.fill(2)
            broker.tiering.wake()
            await broker.clock.run_for(0)
            assert broker.partition().log.copied_to == 6
        finally:
            task.cancel()
            await asyncio.wait([task])


@pytest.mark.parametrize("times", [1, DESCRIPTION_TRIES, DESCRIPTION_TRIES + 1])
async def test_a_description_that_is_damaged_on_its_way_is_read_again(times: int) -> None:
    async with tiered() as broker:
        get, left = broker.store.get, times

        async def short(key: str, start: int, length: int) -> Buffer:
            nonlocal left
            data = await get(key, start, length)
            left -= key == broker.store.key(".json")
            return data[:-1] if left >= 0 and key == broker.store.key(".json") else data

        broker.store.get = short  # type: ignore[method-assign]
        broker.partition().remote = None
        fresh = broker.tiering.remote_of(broker.partition())
        broker.set_topics(topic(leader_epoch=1, partition_epoch=1, replicas=(1,), **TIERED))
        await broker.tiering.round()
        assert len(fresh.damaged) == (times >= DESCRIPTION_TRIES)
        await broker.tiering.round()
        assert (len(fresh.segments), fresh.damaged) == (3, {})


async def test_what_an_older_leader_has_left_is_deleted_when_it_has_certainly_heard_of_the_next_one() -> None:
    async with tiered() as broker:
        left = broker.store.key(".json").replace("-0000000000-", "-0000000001-").replace(".json", ".log")
        broker.store.objects[left] = b"of a copy that did not end"
        broker.set_topics(topic(leader_epoch=2, partition_epoch=1, replicas=(1,), **TIERED))
        await broker.tiering.round()
        broker.clock.advance_ms(UNHEARD_MS - 1)
        await broker.tiering.round()
        assert left in broker.store.objects
        broker.clock.advance_ms(1)
        await broker.tiering.round()
        assert left not in broker.store.objects


async def test_a_copy_of_an_earlier_epoch_is_not_committed_by_who_leads_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records may have been truncated meanwhile."""
    async with tiered(copies=False) as broker:
        broker.fill(3)

        def called(kind: str, key: str) -> None:
            if key.endswith(".log") and broker.partition().leader_epoch == 0:
                broker.set_topics(topic(leader_epoch=1, partition_epoch=1, replicas=(1,), **TIERED))

        monkeypatch.setattr(broker.store, "_called", called)
        await broker.tiering.round()
        assert [key for key in broker.store.objects if "/claims/" not in key] == []
        await broker.tiering.round()
        copied = segment_of(broker.store.key(".json"))
        assert copied is not None
        assert copied.leader_epoch == 1


async def test_copiers_are_idle_whatever_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with tiered(copies=False) as broker:
        shares = []

        def called(kind: str, key: str) -> None:
            if "/claims/" not in key:
                shares.append((kind, broker.tiering.idle_share))

        monkeypatch.setattr(broker.store, "_called", called)
        broker.fill(3)
        await broker.tiering.round()
        one_of_ten = pytest.approx(1 - 1 / AT_ONCE)
        assert shares == [("list", 1.0), *[("put", one_of_ten)] * 2]


async def test_a_bug_in_one_partition_leaves_the_others(error_log: ErrorLog) -> None:
    async with tiered(copies=False) as broker:
        broker.set_topics(topic("bills", replicas=(1,), **TIERED), topic(replicas=(1,), **TIERED))
        broker.fill(3)
        broker.store.troubles["list"] = [ZeroDivisionError("a bug")]
        await broker.tiering.round()
        await broker.tiering.round()
        assert broker.partition().log.copied_to == 2
        error_log.expect("a partition was not copied to the tier")


async def test_what_is_known_of_a_replica_goes_with_it() -> None:
    async with tiered() as broker:
        before = broker.tiering.remote_of(broker.partition())
        broker.set_topics()
        broker.set_topics(topic(replicas=(1,), topic_id=bytes(range(16)), **TIERED))
        after = broker.tiering.remote_of(broker.partition())
        assert before is not after
        assert bytes(range(16)).hex() in after.folder


async def test_a_list_that_does_not_come_is_trouble() -> None:
    async with tiered(copies=False) as broker:
        never = asyncio.Event()

        async def silent(prefix: str) -> list[StoredObject]:
            if "/claims/" not in prefix:
                await never.wait()
            return []

        broker.store.list = silent  # type: ignore[method-assign]
        task = asyncio.create_task(broker.tiering.round())
        await broker.clock.run_for(LIST_MS)
        await task
        assert broker.tiering.trouble == "no list in 60 s"


async def test_a_cluster_whose_store_was_claimed_by_another_reads_on_and_writes_no_more() -> None:
    async with tiered() as broker:
        await StoreClaim(broker.store, broker.clock, "cluster", "another").hold()
        broker.clock.advance_ms(CHECK_MS)
        broker.fill(4)
        await broker.copy()
        assert broker.tiering.trouble.startswith(
            "another cluster has claimed the memory store for cluster (claim 2, after 1): "
        )
        assert broker.store.calls == []
        log = broker.partition().log
        assert (log.copied_to, log.local_start_offset, log.log_end_offset) == (6, 6, 11)
        broker.set_topics(topic(leader_epoch=1, partition_epoch=1, replicas=(1,), **TIERED))
        await broker.copy()
        assert [kind for kind, _ in broker.store.calls] == ["list"], "what there is to read is still listed"
        fetched = broker.fetch((ORDERS, 0))
        await broker.clock.run_for(0)
        assert bases(fetched.data) == [0, 1]


async def test_a_claim_that_is_lost_within_a_copy_is_noticed_before_the_commit() -> None:
    async with tiered(copies=False) as broker:
        await broker.tiering.round()
        broker.fill(3)
        put = broker.store.put

        async def slow(key: str, parts: Sequence[Buffer], *, create: bool) -> None:
            await put(key, parts, create=create)
            if key.endswith(".log"):
                await StoreClaim(broker.store, broker.clock, "cluster", "another").hold()
                broker.clock.advance_ms(CHECK_MS)

        broker.store.put = slow  # type: ignore[method-assign]
        await broker.tiering.round()
        assert broker.tiering.trouble.startswith("another cluster has claimed")
        assert [kind for kind, end in broker.store.calls if end == "json"] == []
        assert broker.partition().log.copied_to == 0


async def test_what_another_claim_adds_is_not_this_clusters() -> None:
    async with tiered() as broker:
        before = [key for key in broker.store.objects if "/claims/" not in key]
        for key in before:  # the same records, as an earlier and a later owner would have copied them
            for claim in ("0000000000", "0000000002"):
                broker.store.objects[key.replace("-0000000001-", f"-{claim}-")] = broker.store.objects[key]
        for key in before:
            del broker.store.objects[key]
        broker.set_topics(topic(leader_epoch=1, partition_epoch=1, replicas=(1,), **TIERED))
        await broker.copy()
        names = [each.name for each in broker.tiering.remote_of(broker.partition()).segments]
        assert [(name.start_offset, name.claim) for name in names] == [(4, 1)], "what is in memory is copied again"


async def test_nothing_is_listed_before_the_claim_is_made() -> None:
    async with tiered(copies=False) as broker:
        listed = broker.store.list

        async def failing(prefix: str) -> Sequence[StoredObject]:
            raise Unavailable("503")

        broker.store.list = failing  # type: ignore[method-assign]
        await broker.copy()
        assert (broker.tiering.trouble, broker.store.calls) == ("503", [])
        broker.store.list = listed  # type: ignore[method-assign]
        broker.fill(3)
        await broker.copy()
        assert (broker.tiering.trouble, broker.partition().log.copied_to) == ("", 2)


async def test_a_refused_producer_hears_for_how_long_the_store_has_not_worked() -> None:
    async with tiered(copies=False) as broker:
        broker.fill(3)
        broker.replicas.memory.lower(1)
        (result,) = broker.produce(acks=1, records=record_batch()).results
        assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert result.error_message is not None
        assert result.error_message.endswith("and what is not copied to the tier stays")
        broker.store.troubles["list"] = [Unavailable("503")]
        await broker.tiering.round()
        broker.clock.advance_ms(40_000)
        assert not broker.tiering.is_refused(ORDERS), "that was long ago"
        (result,) = broker.produce(acks=1, records=record_batch()).results
        assert result.error_message is not None
        assert result.error_message.endswith("stays: the memory store has not worked for 40 s (503)")
        assert broker.tiering.is_refused(ORDERS)


async def test_the_strip_of_a_partition_and_whether_something_of_it_is_damaged() -> None:
    async with tiered() as broker:
        partition = broker.partition()
        assert [run.kind for run in broker.tiering.strip(partition).runs] == ["remote", "both", "local"]
        assert [each.tp for each in broker.tiering.tiered()] == [ORDERS]
        assert not broker.tiering.is_damaged(partition, broker.tiering.damaged_folders())
        segment = broker.tiering.segment_at(partition, 2)
        assert segment is not None
        broker.tiering.reads.damaged[f"{broker.tiering.remote_of(partition).folder}{segment.name}"] = "another CRC"
        assert broker.tiering.is_damaged(partition, broker.tiering.damaged_folders())
        assert [run.kind for run in broker.tiering.strip(partition).runs] == ["remote", "damaged", "both", "local"]


async def test_a_store_that_takes_no_copies_is_in_trouble_all_the_time_though_it_lists() -> None:
    async with tiered(copies=False) as broker:
        broker.fill()
        broker.store.troubles["put"] = [Unavailable("503")] * 1_000
        task = asyncio.create_task(broker.tiering.run())
        try:
            await broker.clock.run_for(10_000)
            since_ms = broker.tiering.trouble_since_ms
            assert since_ms is not None
            for _ in range(30):
                await broker.clock.run_for(97)
                assert (broker.tiering.trouble, broker.tiering.trouble_since_ms) == ("503", since_ms)
            broker.store.troubles["put"] = []
            await broker.clock.run_for(10_000)
            assert (broker.tiering.trouble, broker.partition().log.copied_to) == ("", 6)
        finally:
            task.cancel()
            await asyncio.wait([task])


async def test_a_leader_that_could_not_copy_and_follows_now_is_in_no_trouble() -> None:
    async with tiered(copies=False) as broker:
        broker.fill()
        broker.store.troubles["put"] = [Refused("disk full")]
        await broker.copy()
        assert broker.tiering.trouble == "disk full"
        broker.set_topics(topic(leader=2, leader_epoch=1, partition_epoch=1, replicas=(1, 2), **TIERED))
        await broker.copy()
        await broker.copy()
        assert broker.tiering.trouble == ""
