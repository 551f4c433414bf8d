"""The services of a broker that the leader of its share partitions uses, and those that these share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purgatorio.broker.coordinator.share_settings import ShareGroupSettings, ShareSettings
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.share.giving_up import NO_DEAD_LETTERS, DeadLetters
from purgatorio.broker.share.persister import Persister
from purgatorio.broker.share.share_metrics import ShareObserver
from purgatorio.broker.time.long_work import OwnWork
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey
from purgatorio.purgatory import Purgatory
from purgatorio.purgatory.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareLeaderServices:
    """Services of one broker that the leader of share partitions uses.

    Attributes:
        image: returns the image that this broker acts on.
        settings: those of each share group.
        purgatory: "ShareFetch".
        lock_purgatory: returns "AcquisitionLock"; it is made when the first record is acquired.
        max_sessions: the most share sessions (group.share.max.share.sessions).
        observer: counts requests by topic.
        work: takes the steps of what takes long.
    """

    image: Callable[[], ClusterImage]
    settings: ShareGroupSettings
    persister: Persister
    clock: Clock
    purgatory: Purgatory[Any]
    lock_purgatory: Callable[[], Purgatory[Any]]
    dead_letters: DeadLetters
    max_sessions: int
    observer: ShareObserver
    work: OwnWork


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareServices:
    """Services that the share partitions of one broker share.

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
