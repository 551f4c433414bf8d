"""Events of a broker's replicas, and the purgatories whose operations they check.

| event | Produce | Fetch |
|---|---|---|
| leader append that advances the high watermark (no other in-sync replica) | yes | yes |
| leader append that does not | | yes: followers read up to the log end offset |
| follower fetch that advances the high watermark | yes | yes |
| role or ISR changed, partition removed | yes | yes |
| records deleted on request or by retention | | yes: followers have to delete them, too |
| the high watermark of a follower replica advanced (KAFKA-14334) | | yes |

Every entry point of the replicas runs ``with actions``: events are handled when the outermost call returns, since the
completion of one operation may cause the next event.
"""

from __future__ import annotations

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.purgatory import Purgatory
from purgatorio.broker.replica.delayed_fetch import DelayedFetch
from purgatorio.broker.replica.delayed_produce import DelayedProduce


class ReplicaEvents:
    """Checks the parked requests that an event of a replica may complete.

    Args:
        produce_purgatory: the purgatory of produce requests.
        fetch_purgatory: the purgatory of fetch requests.
    """

    def __init__(self, produce_purgatory: Purgatory[DelayedProduce], fetch_purgatory: Purgatory[DelayedFetch]) -> None:
        self._produce_purgatory = produce_purgatory
        self._fetch_purgatory = fetch_purgatory

    def changed(self, tp: TopicPartition, cause: str, *, high_watermark_moved: bool) -> None:
        """Check the fetches that wait for a partition, and the produce requests if its high watermark moved."""
        if high_watermark_moved:
            self._produce_purgatory.check_and_complete(tp, cause)
        self._fetch_purgatory.check_and_complete(tp, cause)
