"""Rules about consumers that get nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from purgatorio.admin.operations.reading.why.known import Conclusion, Facts, name_of, plural

LATEST: Final = -1
"""The timestamp by which ListOffsets asks for the end of a partition."""


def reads_from_the_end(facts: Facts) -> Iterator[Conclusion]:
    """Yield consumers that began at the end of a partition that had records, and have read nothing since."""
    for position in facts.positions:
        place = position["topic"], position["partition"]
        partition = facts.partitions.get(place)
        start = facts.start_of(position["client"], *place)
        if partition is None or start is None or start["timestamp"] != LATEST:
            continue
        at, end = position["offset"], partition["high_watermark"]
        earlier = at - partition["log_start_offset"]
        if at != start["offset"] or at != position["first_offset"] or at < end or earlier <= 0:
            continue  # it has moved, or there are records to read, or there never were any
        client = position["client"]
        says = (
            f"{client} reads {name_of(position)} from offset {at}, the end: it started after the "
            f"{'record' if earlier == 1 else plural(earlier, 'record')}, and auto.offset.reset=latest"
        )
        groups = [group["id"] for group, _ in facts.memberships(client)]
        yield Conclusion(says, (client, position["topic"], *groups))


RULES: Final = (reads_from_the_end,)
