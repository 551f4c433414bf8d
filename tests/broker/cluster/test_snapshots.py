"""Tests of what is made of a log that may lack its end."""

from __future__ import annotations

from purgatorio.broker.cluster.snapshots import abort_transactions
from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.log import Log
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch


def log_with_open_transactions(*producers: int) -> Log:
    log = Log(LogConfig())
    for producer_id in producers:
        batch = build_batch(
            [Record(0, 1_000, None, b"value", ())],
            producer_id=producer_id,
            producer_epoch=3,
            base_sequence=0,
            transactional=True,
        )
        log.append_as_leader(batch, leader_epoch=2, wall_ms=1_000)
    return log


def test_open_transactions_are_aborted_the_same_way_in_each_replica() -> None:
    log, follower = log_with_open_transactions(8, 7), log_with_open_transactions(8, 7)
    assert log.last_stable_offset(2) == 0
    assert [abort_transactions(each) for each in (log, follower)] == [2, 2]
    assert log.last_stable_offset(4) == 4
    starts, producers = log.aborted_transactions(0, 4)
    assert (list(starts), list(producers)) == ([0, 1], [8, 7])
    read = [b"".join(each.read(0, max_bytes=10**6, end_offset=4).parts) for each in (log, follower)]
    assert read[0] == read[1]
    assert abort_transactions(log) == 0


def test_a_log_that_lacks_its_transactional_end_serves_all_it_has() -> None:
    """The state of its producers says at its end that a transaction is open, whose marker is lost."""
    before = log_with_open_transactions(7)
    log = Log(LogConfig(remote_storage_enable=True))
    log.begin_behind(1, log_start_offset=0, epochs=before.epochs.entries, producers=before.producers.snapshot())
    assert abort_transactions(log) == 1
    log.commit_to(log.log_end_offset)
    assert log.last_stable_offset(2) == 2
    starts, producers = log.aborted_transactions(0, 2)
    assert (list(starts), list(producers)) == ([0], [7])
