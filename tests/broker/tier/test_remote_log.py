"""What the store has of a log changes its meaning when the log is truncated."""

from __future__ import annotations

from purgatorio.broker.tier.store import MemoryStore
from tests.broker.tier.stores import copied, log_of, record_batch


async def test_a_segment_with_records_that_were_truncated_is_not_found_any_more() -> None:
    """After an unclean election the log has other records at its offsets."""
    log = log_of(7)
    remote = await copied(log, MemoryStore())
    found = remote.find(4, log)
    assert found is not None
    assert (found.start_offset, found.end_offset) == (4, 6)
    log.truncate_to(5)
    for number in range(3):
        log.append_as_leader(record_batch(2_000 + number), leader_epoch=1, wall_ms=2_000 + number)
    assert remote.find(4, log) is None
    assert remote.find(3, log) is not None
