"""Services that the parts of one broker's share coordinator share."""

from __future__ import annotations

from collections.abc import Callable

from purgatorio.broker.coordinator.coordinator_log import CoordinatorLog
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.share.state.config import ShareStateConfig
from purgatorio.broker.time.long_work import OwnWork
from purgatorio.late import dataclass
from purgatorio.purgatory.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateServices:
    """Services that the parts of one broker's share coordinator share.

    Attributes:
        clock: wall time of snapshots, which outlives a coordinator.
        image: returns this broker's image, which shows whether a topic exists.
    """

    config: ShareStateConfig
    log: CoordinatorLog
    clock: Clock
    image: Callable[[], ClusterImage]
    work: OwnWork
