"""The events of a run, in order: faults, starts and ends of services, records sent, rows stored, lines logged."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Final

from purgatorio.late import dataclass

MAX_ENTRIES: Final = 200_000
"""The most entries of a run; one that records more has a loop in it."""

LINE_LENGTH: Final = 160
"""How much of an entry's text a report shows."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One event.

    Attributes:
        at_seconds: virtual seconds since the scenario began.
        node: the name of the process that it happened in or to; "world" for the scenario itself.
        kind: "fault", "service", "sent", "acked", "stored", "log", "world".
        text: what happened, in a few words.
    """

    at_seconds: float
    node: str
    kind: str
    text: str

    def __str__(self) -> str:
        line, _, more = self.text.partition("\n")
        cut = line[:LINE_LENGTH]
        return f"{self.at_seconds:9.3f} s  {self.node:<12} {cut}{' …' if more or cut != line else ''}"


class Journal:
    """The entries of one run.

    Args:
        now_seconds: gives the virtual time, in seconds since the scenario began.
    """

    def __init__(self, now_seconds: Callable[[], float]) -> None:
        self._now_seconds = now_seconds
        self._entries: list[Entry] = []

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def record(self, node: str, kind: str, text: str) -> None:
        """Add an entry at the current virtual time.

        Raises:
            OverflowError: the run has `MAX_ENTRIES` already.
        """
        if len(self._entries) >= MAX_ENTRIES:
            raise OverflowError(f"a run records at most {MAX_ENTRIES} events")
        self._entries.append(Entry(self._now_seconds(), node, kind, text))

    def of(self, kind: str) -> list[Entry]:
        """Return the entries of one kind."""
        return [entry for entry in self._entries if entry.kind == kind]

    def digest(self) -> str:
        """Return the SHA-256 over all entries but log lines, which may name addresses: equal for two equal runs."""
        sha = hashlib.sha256()
        for entry in self._entries:
            if entry.kind == "log":
                continue
            sha.update(f"{entry.at_seconds:.6f} {entry.node} {entry.kind} {entry.text}\n".encode())
        return sha.hexdigest()
