"""Watch lists: under each key, the tickets of the operations that an event on that key may complete.

Kafka spreads its keys over 512 shards to avoid lock contention between threads; one thread needs one dict.

An operation that completes leaves the list that is being walked. In the lists of its other keys its empty ticket stays
until that list is walked or swept. `stale` holds the keys of lists that may contain such tickets, so that a sweep looks
at those only. Kafka's purge looks at all lists; with a million parked operations this would cost a million steps per
thousand completions.
"""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from .delayed_operation import DelayedOperation, Ticket

SHORT_LIST: Final = 8
"""The tickets of a list from which an empty one is dropped at once."""


def distinct(keys: Sequence[Hashable]) -> tuple[Hashable, ...]:
    """The keys without duplicates, in their order. Every key is hashed, so an unhashable one raises here.

    Raises:
        TypeError: a key is not hashable, or `keys` is a string, which would be watched under each of its letters.
        ValueError: there are no keys.
    """
    kind = keys.__class__
    if kind is tuple or kind is list:
        if len(keys) == 1:  # the usual case, at a fraction of the cost
            key = keys[0]
            hash(key)
            return (key,)
    elif isinstance(keys, (str, bytes, bytearray)):
        raise TypeError(f"keys must be a sequence of keys, not {keys!r}")
    if not keys:
        raise ValueError("an operation needs at least one key to be watched under")
    return tuple(dict.fromkeys(keys))


class Watchers:
    """The watch lists of one purgatory. A list without tickets does not exist (KAFKA-2160)."""

    __slots__ = ("lists", "size", "stale")

    lists: dict[Hashable, list[Ticket]]
    """By key, oldest ticket first. To drop tickets a list is replaced; in place it only grows, so a walk is safe."""
    size: int
    """Tickets in all lists (Kafka's PurgatorySize): an operation counts once per key, and empty tickets count too."""
    stale: dict[Hashable, None]
    """Keys of lists that may contain empty tickets; a dict for its order."""

    def __init__(self) -> None:
        self.lists = {}
        self.size = 0
        self.stale = {}

    def watch(self, ticket: Ticket, keys: Sequence[Hashable]) -> None:
        """Add the ticket to the list of every key; stop if its operation was completed meanwhile (KAFKA-18027)."""
        lists = self.lists
        for key in keys:
            if ticket.operation is None:
                return
            tickets = lists.get(key)
            if tickets is None:
                lists[key] = [ticket]
            else:
                tickets.append(ticket)
            self.size += 1

    def replace(self, key: Hashable, tickets: list[Ticket], kept: list[Ticket]) -> int:
        """Replace `tickets`, the list of `key`, by `kept`. Does nothing if `tickets` is not its list any more.

        Returns:
            The number of tickets dropped.
        """
        if self.lists.get(key) is not tickets:
            return 0
        if kept:
            self.lists[key] = kept
        else:
            del self.lists[key]
        dropped = len(tickets) - len(kept)
        self.size -= dropped
        return dropped

    def drop(self, ticket: Ticket, keys: Sequence[Hashable]) -> None:
        """Drop an empty ticket from its lists, except from long ones, which are swept later."""
        for key in keys:
            tickets = self.lists.get(key)
            if tickets is not None and len(tickets) <= SHORT_LIST:
                self.replace(key, tickets, [each for each in tickets if each is not ticket])

    def take(self, key: Hashable) -> list[DelayedOperation]:
        """Remove the list of `key`, and return its pending operations, oldest first."""
        tickets = self.lists.pop(key, [])
        self.size -= len(tickets)
        return [ticket.operation for ticket in tickets if ticket.operation is not None]

    def sweep(self) -> int:
        """Drop the empty tickets of all stale lists, and return how many they were."""
        stale, self.stale = self.stale, {}
        dropped = 0
        for key in stale:
            tickets = self.lists.get(key)
            if tickets is not None:
                dropped += self.replace(key, tickets, [ticket for ticket in tickets if ticket.operation is not None])
        return dropped
