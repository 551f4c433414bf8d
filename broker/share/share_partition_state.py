"""How far a share partition has come."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class SharePartitionState(enum.Enum):
    """How far a share partition has come."""

    EMPTY = "empty"
    """Its state was not asked for yet."""
    INITIALIZING = "initializing"
    """The share coordinator was asked for its state."""
    ACTIVE = "active"
    """It gives records to members."""
    FAILED = "failed"
    """Its state could not be read. It stays so; make another one to try again."""
    FENCED = "fenced"
    """This broker is to have no part in it any more. It stays so."""


_State = SharePartitionState
TRANSITIONS: Final[Mapping[_State, tuple[_State, ...]]] = {
    _State.EMPTY: (_State.INITIALIZING, _State.FENCED),
    _State.INITIALIZING: (_State.ACTIVE, _State.FAILED, _State.FENCED),
    _State.ACTIVE: (_State.FENCED,),
    _State.FAILED: (_State.FENCED,),
    _State.FENCED: (),
}
"""By state of a share partition, the states that may follow."""
