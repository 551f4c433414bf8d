"""What the share partitions of one broker share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purgatorio.broker.coordinator.share_settings import ShareSettings
from purgatorio.broker.share.giving_up import NO_DEAD_LETTERS, DeadLetters
from purgatorio.broker.share.persister import Persister
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey
from purgatorio.purgatory import Purgatory

FindStart = Callable[[], tuple[ErrorCode, int]]
"""Returns the offset at which a group begins that has none yet (share.auto.offset.reset), or an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareServices:
    """What the share partitions of one broker share.

    Attributes:
        locks: returns the purgatory "AcquisitionLock"; it is first asked when records are acquired.
        settings: returns the settings of a group as they are now.
        changed: called when share fetches that wait for a share partition should be checked: there may be records to
            acquire, or it is fenced.
        fenced: called once when a share partition becomes FENCED: it is to leave the cache.
        dead_letters: copies records that are given up.
    """

    persister: Persister
    locks: Callable[[], Purgatory[Any]]
    settings: Callable[[str], ShareSettings]
    changed: Callable[[SharePartitionKey], None]
    fenced: Callable[[SharePartitionKey, ErrorCode], None]
    dead_letters: DeadLetters = NO_DEAD_LETTERS
