"""Tests of how operations are declared."""

from __future__ import annotations

import re
from typing import Any

import pytest

from purgatorio.admin.operations.declare import Operation
from purgatorio.admin.operations.groups import ResetOffsets
from purgatorio.admin.operations.security import SetUser
from purgatorio.admin.operations.share_groups import ResetShareOffsets


@pytest.mark.parametrize("kind", [ResetOffsets, ResetShareOffsets])
@pytest.mark.parametrize("to", ["5", "", "LATEST", 5])
def test_a_reset_takes_no_target_that_it_does_not_know(kind: type[Operation], to: Any) -> None:
    """Any other text was taken for the latest record."""
    with pytest.raises(ValueError, match=re.escape(f"to is {to!r}; it can be earliest or latest")):
        kind("jobs", "orders", to=to)


def test_an_attribute_of_some_words_takes_no_other() -> None:
    with pytest.raises(ValueError, match="mechanism is 'PLAIN'; it can be SCRAM-SHA-256 or SCRAM-SHA-512"):
        SetUser("alice", "PLAIN", 4_096, b"", b"")  # type: ignore[arg-type]
