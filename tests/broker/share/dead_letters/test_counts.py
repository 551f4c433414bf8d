"""Dead letters are counted by group, for a bounded number of groups."""

from __future__ import annotations

import pytest

from purgatorio.broker.share.dead_letters import counts
from purgatorio.broker.share.dead_letters.counts import OTHER_GROUPS, DeadLetterCount, DeadLetterCounts


def test_groups_beyond_the_limit_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "MAX_GROUPS", 2)
    kept = DeadLetterCounts()
    for group in ("a", "b", "c", "a", "d"):
        kept.of(group).records += 1
    assert kept.by_group == {
        "a": DeadLetterCount(records=2),
        "b": DeadLetterCount(records=1),
        OTHER_GROUPS: DeadLetterCount(records=2),
    }
