"""The slots for connections, and which of them is given to another."""

from __future__ import annotations

import pytest

from purgatorio.broker.server.connection_slots import MIN_BEFORE_LOGIN, ConnectionSlots, Slot
from purgatorio.broker.server.limits import ConnectionLimits, Refusal


class Guest:
    """A connection that is closed at once."""

    def __init__(self) -> None:
        self.why = ""

    def make_room(self, why: str) -> None:
        self.why = why


def slots_of(most: int, per_ip: int = 10_000, **of: int) -> ConnectionSlots:
    return ConnectionSlots(ConnectionLimits(max_connections=most, max_connections_per_ip=per_ip, max_connections_of=of))


def taken(slots: ConnectionSlots, host: str = "192.0.2.1", *, logged_in: bool = False) -> tuple[Slot, Guest]:
    guest = Guest()
    slot = slots.take(host, guest)
    assert isinstance(slot, Slot), slot
    if logged_in:
        slots.logged_in(slot)
    return slot, guest


def test_the_one_that_waited_longest_without_logging_in_makes_room() -> None:
    """Thousands of half requests before login do not keep an honest client out."""
    slots = slots_of(3)
    _, honest = taken(slots, logged_in=True)
    _, oldest = taken(slots)
    _, younger = taken(slots)
    slot, new = taken(slots, "192.0.2.2")
    assert oldest.why.startswith("3 connections are open")
    assert oldest.why.endswith(": of those that have not logged in, this one waited longest")
    assert (honest.why, younger.why, new.why) == ("", "", "")
    slots.logged_in(slot)
    taken(slots, logged_in=True)
    assert younger.why
    assert slots.taken == 3
    assert slots.before_login == 0


def test_those_that_logged_in_keep_their_places() -> None:
    slots = slots_of(2)
    taken(slots, logged_in=True)
    slot, _ = taken(slots, logged_in=True)
    assert slots.take("192.0.2.2", Guest()) == (
        Refusal.TOO_MANY_CONNECTIONS,
        "2 connections are open, as many as max.connections and the limit of open files allow",
    )
    slots.leave(slot)
    taken(slots)


def test_an_address_makes_room_for_itself() -> None:
    slots = slots_of(10, per_ip=2)
    _, other = taken(slots, "192.0.2.9")
    taken(slots, logged_in=True)
    _, first = taken(slots)
    taken(slots, logged_in=True)
    assert first.why.startswith("2 connections of 192.0.2.1 are open, as many as max.connections.per.ip allows")
    refused = slots.take("192.0.2.1", Guest())
    assert refused == (
        Refusal.TOO_MANY_CONNECTIONS_OF_ADDRESS,
        "2 connections of 192.0.2.1 are open, as many as max.connections.per.ip allows",
    )
    assert not other.why


def test_an_address_may_have_a_number_of_its_own() -> None:
    slots = slots_of(10, per_ip=1, **{"192.0.2.1": 2})
    taken(slots, logged_in=True)
    taken(slots, logged_in=True)
    assert not isinstance(slots.take("192.0.2.1", Guest()), Slot)


@pytest.mark.parametrize(("most", "before_login"), [(10_000, 2_500), (100, MIN_BEFORE_LOGIN)])
def test_a_share_of_the_places_is_for_those_that_have_not_logged_in(most: int, before_login: int) -> None:
    slots = slots_of(most)
    guests = [taken(slots)[1] for _ in range(before_login + 3)]
    assert [guest.why for guest in guests[:3]] == [
        f"{before_login} clients have not logged in: of those that have not logged in, this one waited longest"
    ] * 3
    assert not any(guest.why for guest in guests[3:])
    assert slots.taken == slots.before_login == before_login


def test_a_guest_that_made_room_leaves_no_other_place() -> None:
    slots = slots_of(1)
    first, _ = taken(slots)
    second, _ = taken(slots)
    slots.leave(first)
    assert slots.taken == 1
    slots.leave(second)
    slots.leave(second)
    assert slots.taken == slots.before_login == 0


def test_other_numbers_count_for_new_ones() -> None:
    slots = slots_of(5)
    for _ in range(3):
        taken(slots, logged_in=True)
    slots.allow(2, 2)
    assert not isinstance(slots.take("192.0.2.2", Guest()), Slot)
    assert slots.taken == 3
