"""Watch lists: under each key, the tickets of the operations that an event on that key may complete.

Kafka spreads its keys over 512 shards to keep threads off each other's locks; one thread needs one dict.

An operation leaves the list that is walked when it completes. In the lists of its other keys an empty ticket stays
until that list is walked or swept. `stale` names the lists that may hold such tickets, so a sweep looks at those only;
Kafka's looks at all, which with a million parked operations would cost a million steps per thousand completions.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from purgatorio.broker.purgatory.delayed_operation import DelayedOperation, Ticket


class Watchers:
    """The watch lists of one purgatory. A list without tickets does not exist (KAFKA-2160)."""

    __slots__ = ("lists", "size", "stale")

    lists: dict[Hashable, list[Ticket]]
    """By key, oldest first. A list is replaced, not changed, when tickets are dropped; it only ever grows in place."""
    size: int
    """Tickets in all lists: an operation counts once per key, empty tickets count too (Kafka's PurgatorySize)."""
    stale: dict[Hashable, None]
    """Keys whose lists may hold empty tickets; a dict for its order."""

    def __init__(self) -> None:
        self.lists = {}
        self.size = 0
        self.stale = {}

    def watch(self, ticket: Ticket, keys: Sequence[Hashable]) -> None:
        """Add the ticket under every key; stop if its operation got completed meanwhile (KAFKA-18027)."""
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
        """Put `kept` in the place of `tickets`, which were the list of `key`; returns how many tickets that dropped.

        Nothing happens if `tickets` has been taken away since.
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

    def take(self, key: Hashable) -> list[DelayedOperation]:
        """Remove the whole list of `key`, and return its pending operations, oldest first."""
        tickets = self.lists.pop(key, [])
        self.size -= len(tickets)
        return [ticket.operation for ticket in tickets if ticket.operation is not None]

    def sweep(self) -> int:
        """Drop the empty tickets of all stale lists; returns how many."""
        stale, self.stale = self.stale, {}
        dropped = 0
        for key in stale:
            tickets = self.lists.get(key)
            if tickets is not None:
                dropped += self.replace(key, tickets, [ticket for ticket in tickets if ticket.operation is not None])
        return dropped
