"""Reads all partitions of a fetch, and knows at what cost: that of those that changed."""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Final

from purgatorio.broker.replica.fetching.fetch_context import FetchContext, FetchEntry, PartitionFetch
from purgatorio.broker.replica.fetching.fetch_session import FetchSession
from purgatorio.broker.replica.fetching.fetch_watch import FetchWatch
from purgatorio.broker.replica.fetching.reader import ABSENT, ANSWER_NOW, NOT_READ, ReplicaReader
from purgatorio.protocol.messages.fetch import PartitionData

PARTITIONS_PER_STEP: Final = 500
"""How many partitions a step of a long read takes: some 4 ms."""


class ContextReader:
    """Looks at the partitions of fetches, and reads them.

    Args:
        reader: looks at one partition, and reads it.
        watch: gets the partitions that were looked at, to hear of their next event.

    Attributes:
        assignment_of, held_back_by: see `ReplicaReader`.
    """

    def __init__(self, reader: ReplicaReader, watch: FetchWatch) -> None:
        self._reader = reader
        self._watch = watch
        self.assignment_of = reader.assignment_of
        self.held_back_by = reader.held_back_by

    def look(self, context: FetchContext, *, arrives: bool = False) -> None:
        """Look at the marked partitions; of a full response only until it is due, since it reads all anyway.

        Args:
            arrives: the request has just come, so that partitions which do not exist do not end its wait.
        """
        for fetch in list(context.marked):
            self.look_at(context, fetch, arrives=arrives)
            if context.is_full and context.is_due:
                return

    def look_at(self, context: FetchContext, fetch: PartitionFetch, *, arrives: bool = False) -> bool:
        """Look at one partition; returns False if it cannot be read. See `look`."""
        context.marked.pop(fetch, None)
        standing = self._reader.look(context.params, fetch)
        if standing < 0:
            if standing == ABSENT and (arrives or fetch in context.absent):
                context.found_absent(fetch)
                return False
            context.looked_at(fetch, None)
            return standing == ANSWER_NOW
        context.looked_at(fetch, standing)
        if context.is_watched:
            self._watch.add(fetch)
        return True

    def look_for_preferred_replicas(self, context: FetchContext) -> None:
        """Note the partitions that a consumer should read from a replica in its rack (KIP-392).

        Followers move all the time, so this looks at all partitions; but only for consumers whose rack has a broker.
        """
        if self._reader.may_prefer(context.params):
            for fetch in context.fetches:
                if self._reader.has_preferred_replica(context.params, fetch):
                    context.looked_at(fetch, None)

    def is_due(self, context: FetchContext) -> bool:
        """Return whether the response is due, by a look at every partition: what the marks should have led to."""
        available_bytes = 0
        for fetch in context.fetches:
            standing = self._reader.look(context.params, fetch)
            if standing == ABSENT and fetch in context.absent:
                continue
            if standing < 0:
                return True
            available_bytes += standing
        return available_bytes >= context.params.min_bytes

    def read(self, context: FetchContext) -> list[FetchEntry]:
        """Read the response within the request's limits; the first batch may be larger than the limits (KIP-74)."""
        if not context.is_full:
            self.look(context)
        entries, _ = self._read(context)
        context.answered()
        return entries

    def read_if_due(self, context: FetchContext) -> list[FetchEntry] | None:
        """Return a response that lists all partitions if it is due, else None.

        A response of which the first partition has something to read is probably due, and read without a look.
        """
        if self._reader.may_have_records(next(iter(context.fetches))):
            entries, size_bytes = self._read(context)
            if size_bytes >= context.params.min_bytes or any(_is_urgent(data) for _, data in entries):
                context.answered()
                return entries
        self.look(context, arrives=True)
        return self.read(context) if context.is_due else None

    def read_in_steps(self, context: FetchContext) -> Generator[None, None, tuple[list[FetchEntry], bool]]:
        """Read a response without a session as `read` does, in steps, between which other work can be done.

        Returns:
            The response, and whether it is due.
        """
        params = context.params
        left_bytes, size_bytes, is_urgent = params.max_bytes, 0, False
        entries: list[FetchEntry] = []
        for fetch in context.fetches:
            data, part_bytes = self._reader.read(params, fetch, left_bytes, min_one=size_bytes == 0)
            size_bytes += part_bytes
            left_bytes = max(0, left_bytes - part_bytes)
            is_urgent = is_urgent or _is_urgent(data)
            if data.error_code in NOT_READ:
                context.absent[fetch] = None
            entries.append((fetch, data))
            if not len(entries) % PARTITIONS_PER_STEP:
                yield
        is_due = is_urgent or size_bytes >= params.min_bytes or len(context.absent) == len(entries)
        return entries, is_due

    def _read(self, context: FetchContext) -> tuple[list[FetchEntry], int]:
        """Return the response, and the size of its records in bytes."""
        params = context.params
        session = context if isinstance(context, FetchSession) else None
        left_bytes = params.max_bytes
        size_bytes = 0
        entries: list[FetchEntry] = []
        for fetch in context.worth_reading:
            data, part_bytes = self._reader.read(params, fetch, left_bytes, min_one=size_bytes == 0)
            size_bytes += part_bytes
            left_bytes = max(0, left_bytes - part_bytes)
            if session is None or session.tell(fetch, data, part_bytes):
                entries.append((fetch, data))
        return entries, size_bytes

    def watch(self, context: FetchContext) -> None:
        """Let events mark the partitions from now on. All were looked at, with no event since."""
        context.is_watched = True
        for fetch in context.fetches:
            self._watch.add(fetch)

    def release(self, context: FetchContext) -> None:
        """Let no event mark the partitions any more."""
        context.is_watched = False
        self.forget(context.fetches)

    def forget(self, fetches: Iterable[PartitionFetch]) -> None:
        """Let no event mark these partitions any more."""
        for fetch in fetches:
            self._watch.discard(fetch)

    def failed(self, context: FetchContext) -> list[FetchEntry]:
        """Return the response after an unexpected error."""
        return [(fetch, self._reader.failed(fetch)) for fetch in context.fetches]


def _is_urgent(data: PartitionData) -> bool:
    """Return whether an entry must be told at once."""
    if data.error_code:
        return data.error_code not in NOT_READ
    return data.diverging_epoch.end_offset >= 0 or data.preferred_read_replica >= 0
