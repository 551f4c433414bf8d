"""Without dead letters, records that are given up are archived at once; with them, they are counted by group."""

from __future__ import annotations

from dataclasses import replace

import pytest

from purgatorio.broker.share import giving_up
from purgatorio.broker.share.giving_up import (
    NO_DEAD_LETTERS,
    OTHER_GROUPS,
    DeadLetterCount,
    DeadLetterCounts,
    GiveUpCause,
)
from purgatorio.broker.share.share_partition import SharePartition
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import RecordState
from tests.broker.share.harness import KEY, TP, Shared, stored


def test_nothing_is_copied() -> None:
    shared = Shared()
    assert not NO_DEAD_LETTERS.wanted("app")
    NO_DEAD_LETTERS.give_up(shared.partition, 0, 9, 1, GiveUpCause.REJECTED)
    assert shared.persister.writes == []


def test_a_share_partition_has_no_dead_letters_unless_it_is_told() -> None:
    shared = Shared(batches=[stored(0, 0, RecordState.ARCHIVING, 1)], loaded=False)
    counts = shared.partition.counts
    services = replace(shared.services, dead_letters=NO_DEAD_LETTERS)
    shared.partition = SharePartition(KEY, TP, 3, services, find_start=lambda: shared.start, counts=counts)
    assert shared.load() == [ErrorCode.NONE]
    assert shared.acquire((1, 1)) == [(1, 1, 1)]
    shared.ack((1, 1, 3))
    assert shared.picture == "g1 x1"


def test_groups_beyond_the_limit_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(giving_up, "MAX_GROUPS", 2)
    kept = DeadLetterCounts()
    for group in ("a", "b", "c", "a", "d"):
        kept.of(group).records += 1
    assert kept.by_group == {
        "a": DeadLetterCount(records=2),
        "b": DeadLetterCount(records=1),
        OTHER_GROUPS: DeadLetterCount(records=2),
    }
