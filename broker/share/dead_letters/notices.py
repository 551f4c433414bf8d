"""Log lines about records of which there is no dead letter, or an empty one: few of a kind.

Consumers decide how many records are given up, and producers how many of them cannot be copied.
"""

from __future__ import annotations

from collections.abc import Sequence

from purgatorio.broker.share.dead_letters.line import Line
from purgatorio.broker.share.giving_up import Archived
from purgatorio.logger import LineBudget, get_logger
from purgatorio.protocol.records import BatchHeader
from purgatorio.purgatory.clock import Clock

logger = get_logger(__name__)


class Notices:
    """The lines of one broker; the first one after a silence tells how many were left out.

    Args:
        clock: times the periods.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lost = LineBudget()
        self._not_copied = LineBudget()

    def lost(self, line: Line, ranges: Sequence[Archived], why: str) -> None:
        """Say which records are archived without dead letters."""
        records = f"{line.tp} {', '.join(_offsets(each) for each in ranges)}"
        self._warn(
            self._lost, "records are archived without dead letters", group=line.group_id, records=records, why=why
        )

    def not_copied(self, header: BatchHeader, why: str) -> None:
        """Say of which batch the records have dead letters without key and value."""
        event = "records of a batch cannot be copied to a dead-letter topic"
        self._warn(self._not_copied, event, base_offset=header.base_offset, why=why)

    def _warn(self, budget: LineBudget, event: str, **fields: object) -> None:
        left_out = budget.take(self._clock.now_ms())
        if left_out is not None:
            logger.warning(event, **fields, **({"lines_left_out": left_out} if left_out else {}))


def _offsets(each: Archived) -> str:
    return str(each.first_offset) + (f"–{each.last_offset}" if each.last_offset > each.first_offset else "")
