"""What members leave at a broker is weighed: sessions by their bytes, locks by runs of records, by connection."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import pytest

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.routing.request import Session
from purgatorio.broker.share import holdings, session_endings, share_fetches
from purgatorio.broker.share.acknowledging import ShareAcknowledgementBatch
from purgatorio.broker.share.acquiring import AcquireMode
from purgatorio.broker.share.holdings import Holdings, LockHolder
from purgatorio.broker.share.share_fetches import ShareRequestError
from purgatorio.broker.time import long_work
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey
from tests.broker.replica.harness import ORDERS, batch
from tests.broker.share.fetching import GROUP, Member, ShareHarness
from tests.broker.share.harness import Shared
from tests.broker.time.by_hand import HandListings

ACCEPT, RELEASE, RENEW = 1, 2, 4
NONE = ErrorCode.NONE


def unknown(count: int, first: int = 1) -> list[SharePartitionKey]:
    """Partitions of topic ids that the broker does not know."""
    return [SharePartitionKey(GROUP, number.to_bytes(16), 0) for number in range(first, first + count)]


def beside(member: Member, member_id: str) -> Member:
    """Return another member on the connection of one."""
    other = member.house.member(member_id)
    other.connection = member.connection
    return other


@pytest.fixture
def house() -> ShareHarness:
    return ShareHarness(max_sessions=100, partitions=3)


# --- sessions ---


def test_a_session_takes_no_more_than_it_weighs(house: ShareHarness) -> None:
    count = 500
    house.member("warm").fetch(*unknown(10), max_wait_ms=0)
    keys = unknown(count, first=100)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        house.member("ada").fetch(*keys, max_wait_ms=0)
        house.advance_ms(0)
        house.finished.clear()
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    session = house.shares.sessions.find(GROUP, "ada")
    assert session is not None
    assert session.size_bytes * 0.3 < taken < session.size_bytes


def test_the_sessions_of_a_connection_have_a_limit_in_bytes(
    house: ShareHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holdings, "MAX_CONNECTION_BYTES", 20_000)
    monkeypatch.setattr("purgatorio.broker.share.share_session.MAX_CONNECTION_BYTES", 20_000)
    ada = house.member("ada")
    ada.fetch(*unknown(20), max_wait_ms=0)
    refused = beside(ada, "bob").fetch(*unknown(20), max_wait_ms=500)
    assert not refused.answered
    house.advance_ms(500)
    assert refused.refusal == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    with pytest.raises(ShareRequestError, match="the share sessions of a connection take at most 20000 bytes"):
        ada.fetch(*unknown(20, first=100))
    house.member("carl").fetch(*unknown(20), max_wait_ms=0)
    assert house.shares.sessions.members(GROUP) == ["ada", "carl"]


def test_all_sessions_have_a_limit_in_bytes_and_give_it_back(
    house: ShareHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("purgatorio.broker.share.share_session.MAX_BROKER_BYTES", 20_000)
    ada, bob = house.member("ada"), house.member("bob")
    ada.fetch(*unknown(20), max_wait_ms=0)
    assert bob.fetch(*unknown(20), max_wait_ms=0).refusal == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    ada.fetch(forgotten=unknown(20), max_wait_ms=0)
    bob.fetch(*unknown(20), max_wait_ms=0, epoch=0)
    ada.connection.lost()
    bob.connection.lost()
    assert house.shares.sessions.size_bytes == 0


def test_a_session_that_is_opened_again_is_not_counted_twice(
    house: ShareHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("purgatorio.broker.share.share_session.MAX_CONNECTION_BYTES", 20_000)
    ada = house.member("ada")
    for _ in range(3):
        ada.fetch(*unknown(20), max_wait_ms=0, epoch=0)
    moved = house.member("ada")
    moved.fetch(*unknown(20), max_wait_ms=0)
    beside(ada, "bob").fetch(*unknown(20), max_wait_ms=0)
    assert house.shares.sessions.members(GROUP) == ["ada", "bob"]


def test_a_session_keeps_one_text_of_its_groups_name(house: ShareHarness) -> None:
    """Each request brings another one, of 32 kB perhaps."""
    ada = house.member("ada")
    ada.fetch(house.key(0), max_wait_ms=0)
    ada.fetch(SharePartitionKey("jo" + "bs", house.key(1).topic_id, 1), max_wait_ms=0)
    session = house.shares.sessions.find(GROUP, "ada")
    assert session is not None
    assert all(key.group_id is session.group_id for key in session.partitions)


def test_a_session_weighs_on_the_connection_that_opened_it_whatever_asks_for_more(
    house: ShareHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("purgatorio.broker.share.share_session.MAX_CONNECTION_BYTES", 20_000)
    ada = house.member("ada")
    ada.fetch(*unknown(10), max_wait_ms=0)
    beside(ada, "bob").fetch(max_wait_ms=0)
    ada.connection = house.member("other").connection
    with pytest.raises(ShareRequestError, match="the share sessions of a connection"):
        ada.fetch(*unknown(10, first=100))


def test_only_so_many_requests_wait_to_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_fetches, "MAX_REFUSED_LATER", 2)
    house = ShareHarness(max_sessions=1)
    house.member("ada").fetch(max_wait_ms=0)
    waiting = [house.member(f"bob {number}").fetch(max_wait_ms=500) for number in range(2)]
    with pytest.raises(ShareRequestError) as refusal:
        house.member("carl").fetch(max_wait_ms=500)
    assert refusal.value.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    house.advance_ms(500)
    assert [each.refusal for each in waiting] == [ErrorCode.SHARE_SESSION_LIMIT_REACHED] * 2
    assert not house.member("carl").fetch(max_wait_ms=500).answered


# --- runs of records ---


def test_parts_that_are_renewed_together_get_one_lock() -> None:
    """A record batch is acquired whole, of any size; a lock of each record would take a kilobyte."""
    shared = Shared()
    shared.acquire((0, 999), most=1_000)
    assert shared.ack(*((offset, offset, RENEW) for offset in range(0, 1_000, 2)), renews=True) == [NONE]
    assert len(shared.parked()) == 2
    shared.advance(29_000)
    assert shared.ack(*((offset, offset, RENEW) for offset in range(0, 1_000, 2)), renews=True) == [NONE]
    shared.advance(1_000)
    assert len(shared.parked()) == 1
    assert shared.picture == "q1 a1 " * 499 + "q1 a1"


def test_records_are_cut_into_so_many_runs_by_renewals_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdings, "MAX_RUNS", 5)
    shared = Shared()
    shared.acquire((0, 9))
    assert shared.ack((1, 1, RENEW), (3, 3, RENEW), renews=True) == [NONE]
    assert shared.holder().run_count == 5
    assert shared.ack((7, 7, RENEW), renews=True) == [ErrorCode.INVALID_RECORD_STATE]
    assert shared.ack((1, 1, RENEW), (3, 3, RENEW), renews=True) == [NONE], "these are runs already"
    assert shared.acquire((10, 19)) == [], "there is no room for another lock"
    assert shared.ack((7, 7, ACCEPT)) == [NONE], "what is done can be said"
    assert shared.ack((0, 6, ACCEPT), (8, 9, ACCEPT)) == [NONE]
    assert shared.holder().run_count == 0
    assert shared.acquire((10, 19)) == [(10, 19, 1)]


def test_records_of_a_partition_are_cut_into_so_many_runs_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("purgatorio.broker.share.acknowledging.MAX_BATCHES", 7)
    shared = Shared()
    shared.acquire((0, 99))
    assert shared.ack((1, 1, ACCEPT), (3, 3, ACCEPT), (5, 5, ACCEPT)) == [NONE]
    assert shared.ack((7, 7, ACCEPT)) == [ErrorCode.INVALID_RECORD_STATE]
    assert shared.ack((2, 2, ACCEPT), (6, 99, ACCEPT)) == [NONE], "which joins runs"
    assert shared.picture.split()[:4] == ["q1", "k1", "k1", "k1"]


def test_parts_get_locks_of_their_own_while_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdings, "MAX_RUNS", 3)
    shared = Shared()
    ranges = [(offset, offset) for offset in range(10)]
    assert shared.acquire(*ranges, size=1) == [(0, 0, 1), (1, 1, 1), (2, 9, 1)]


def counted(shared: Shared) -> tuple[int, int]:
    """The runs as they are counted, and as they are."""
    return shared.holder().run_count, sum(each.lock is not None for each in shared.partition.in_flight)


@pytest.mark.parametrize(
    "end",
    [
        lambda shared: shared.ack((1, 9, ACCEPT)),
        lambda shared: shared.ack((1, 9, RELEASE)),
        lambda shared: shared.advance(30_000),
        lambda shared: shared.release(),
        lambda shared: shared.partition.log_start_moved(10),
        lambda shared: shared.partition.fence(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
    ids=["accept", "release", "time", "session end", "log start", "fence"],
)
def test_runs_are_counted_until_they_end_whatever_ends_them(end: Callable[[Shared], object]) -> None:
    shared = Shared()
    shared.acquire((0, 9))
    shared.ack((2, 2, RENEW), (4, 4, RENEW), renews=True)
    assert counted(shared) == (5, 5)
    shared.ack((0, 0, ACCEPT))
    assert counted(shared) == (5, 5), "of 0 and 1 one is left"
    end(shared)
    assert shared.holder().run_count == 0


def test_a_run_whose_lock_ran_out_while_it_was_acknowledged_is_counted_once() -> None:
    shared = Shared()
    shared.acquire((0, 9))
    shared.persister.waits = True
    shared.ack((0, 4, ACCEPT))
    shared.advance(30_000)
    assert shared.holder().run_count == 0
    shared.persister.answer()
    shared.partition.fence(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert shared.holder().run_count == 0


def test_the_members_of_a_connection_share_its_room() -> None:
    room: list[str] = []
    one, other = Holdings(lambda: room.append("one")), Holdings(lambda: room.append("other"))
    ada, bob = LockHolder("ada", one), LockHolder("bob", one)
    ada.count(holdings.MAX_RUNS - 1)
    assert bob.room == 1
    bob.count(1)
    assert (ada.room, room) == (0, [])
    ada.move(other)
    assert (ada.room, bob.room, room) == (1, holdings.MAX_RUNS - 1, ["one"])


def test_a_fetch_waits_until_its_connection_has_room_for_locks(
    house: ShareHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holdings, "MAX_RUNS", 2)
    for _ in range(4):
        house.produce(ORDERS, records=batch(b"a"), acks=1)
    ada = house.member("ada")
    for expected in (0, 1):
        asked = ada.fetch(house.key(), max_records=1, mode=AcquireMode.RECORD_LIMIT)
        assert asked.acquired == [(expected, expected, 1)]
    waiting = ada.fetch(max_wait_ms=60_000)
    assert not waiting.answered
    assert house.member("bob").fetch(house.key()).acquired == [(2, 3, 1)], "another connection has room"
    ada.acknowledge(house.key(), 1)  # which leaves the start offset where it is
    for _ in range(2):
        house.produce(ORDERS, records=batch(b"b"), acks=1)
    house.advance_ms(0)
    assert waiting.acquired == [(4, 4, 1)]


def test_a_member_that_opens_another_session_takes_its_runs_along(house: ShareHarness) -> None:
    house.produce(ORDERS, records=batch(b"a"), acks=1)
    ada = house.member("ada")
    ada.fetch(house.key())
    moved = house.member("ada")
    moved.fetch(house.key(), max_wait_ms=0)
    session = house.shares.sessions.find(GROUP, "ada")
    assert session is not None
    assert (session.holder.run_count, session.holder.room) == (1, holdings.MAX_RUNS - 1)
    ada.connection.lost()
    assert session.holder.run_count == 1
    moved.connection.lost()
    assert session.holder.run_count == 0


def test_a_connection_without_a_session_keeps_what_its_members_have_acquired(
    house: ShareHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member that forgot partitions, ended its session and opened another one had all of its room again."""
    monkeypatch.setattr(holdings, "MAX_RUNS", 1)
    for index in range(2):
        house.produce(TopicPartition("orders", index), records=batch(b"a"), acks=1)
    other = house.member("bob")
    other.fetch(max_wait_ms=0)  # or the group's share partitions would end
    ada = house.member("ada")
    assert ada.fetch(house.key(0)).acquired == [(0, 0, 1)]
    ada.fetch(forgotten=[house.key(0)], max_wait_ms=0)
    ada.fetch(epoch=-1, max_wait_ms=0)
    assert house.shares.sessions.find(GROUP, "ada") is None
    ada.epoch = 0
    assert ada.fetch(house.key(1), max_wait_ms=0).acquired == []
    ada.connection.lost()
    assert list(house.shares.sessions._of_connection) == [other.connection]


# --- turns ---


def test_sessions_that_end_together_take_turns(house: ShareHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the sessions of a connection do: each alone would be short."""
    monkeypatch.setattr(long_work, "SLICE", 1)
    for _ in range(3):
        house.produce(ORDERS, records=batch(b"a"), acks=1)
    members = [house.member("ada")]
    members += [beside(members[0], name) for name in ("bob", "carl")]
    for each in members:
        each.fetch(house.key(), max_records=1, mode=AcquireMode.RECORD_LIMIT)
    share = house.shares.partitions.known(house.key())
    assert share is not None
    members[0].connection.lost()
    left = [len(share.locks())]
    left += [len(share.locks()) for _ in house.long_work.turns()]
    assert left[:3] == [2, 1, 0]
    assert len(house.shares.sessions) == len(house.shares.partitions) == 0


def test_the_end_of_a_session_counts_what_it_releases_not_the_partitions(
    house: ShareHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_endings, "MAX_RELEASED", 10)
    monkeypatch.setattr(long_work, "SLICE", 1)
    house.produce(ORDERS, records=batch(*[b"a"] * 100), acks=1)
    ada = house.member("ada")
    ada.fetch(house.key())
    renewed = [ShareAcknowledgementBatch(offset, offset, (RENEW,)) for offset in range(0, 100, 2)]
    nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    ada.fetch(acknowledged={house.key(): renewed}, renews=True, **nothing)  # type: ignore[arg-type]
    session = house.shares.sessions.find(GROUP, "ada")
    assert session is not None
    assert session.holder.run_count == 100
    ada.connection.lost()
    for left in range(90, -1, -10):
        assert session.holder.run_count == left
        house.long_work.turn()


def test_a_fetch_looks_at_so_many_partitions_in_a_turn(house: ShareHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("purgatorio.broker.share.share_reader.LOOKED_PER_TURN", 2)
    monkeypatch.setattr("purgatorio.purgatory.key_group.CHECKED_PER_TURN", 1)
    looks = []
    look = house.shares.fetches._reader.look
    house.shares.fetches._reader.look = lambda session: (looks.append(len(session.marked)), look(session))  # type: ignore[method-assign,assignment,func-returns-value]
    asked = house.member("ada").fetch(*unknown(5))
    assert (asked.answered, looks) == (False, [5, 3]), "before it waits, and as soon as it is watched"
    house.advance_ms(0)
    assert looks == [5, 3, 1]
    assert [error for error, _ in asked.errors] == [ErrorCode.UNKNOWN_TOPIC_ID] * 5


class Muted:
    """A channel that counts mutes."""

    def __init__(self) -> None:
        self.count = 0

    def mute(self) -> None:
        self.count += 1

    def unmute(self) -> None:
        self.count -= 1

    def throttle(self) -> None:
        raise AssertionError

    def unthrottle(self) -> None:
        raise AssertionError


def test_acknowledgements_of_many_partitions_take_turns_in_which_the_connection_is_muted(
    house: ShareHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the request that follows finds all of them done."""
    for module in (share_fetches, long_work):
        monkeypatch.setattr(module, "SLICE", 1)
    listings = HandListings()
    house.shares.fetches._listings = listings
    keys = [house.key(partition) for partition in range(3)]
    for key in keys:
        house.produce(ORDERS._replace(partition=key.partition), records=batch(b"a"), acks=1)
    ada, channel = house.member("ada"), Muted()
    ada.fetch(*keys)
    ada.connection = Session(connection_id="b", listener="PLAINTEXT", host="h", peer="h:2", channel=channel)
    accepted = {key: [ShareAcknowledgementBatch(0, 0, (ACCEPT,))] for key in keys}
    asked = ada.fetch(acknowledged=accepted, max_wait_ms=0)
    for _ in range(3):
        assert (asked.answered, channel.count) == (False, 1)
        listings.step()
    assert (asked.errors, channel.count) == ([(NONE, NONE)] * 3, 0)
