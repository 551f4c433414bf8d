"""The features of the cluster (KIP-584): which levels brokers support, and which level is in use.

A level is set when the brokers start, and stays: an upgrade of a running cluster has no meaning for metadata that live
as long as its processes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from purgatorio.broker.metadata.releases import Release
from purgatorio.late import dataclass

GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"
SHARE_VERSION: Final = "share.version"


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature: the levels that brokers support, from `lowest` to `highest`, and the `level` in use."""

    name: str
    lowest: int
    highest: int
    level: int


class FeatureLevels(NamedTuple):
    """The levels that are set when a cluster's brokers start: of transaction.version and of share.version."""

    transaction: int
    share: int

    @property
    def epoch(self) -> int:
        """The epoch of these features, which is higher after an upgrade."""
        return self.transaction + self.share


def features(levels: FeatureLevels, release: Release | None = None) -> tuple[Feature, ...]:
    """Return the features of a cluster with these levels, as a release of Kafka has them.

    group.version 1 stands for the consumer protocol (KIP-848), for which clients look at the APIs and tools at the
    feature. With transaction.version 2, Java's client and franz-go use a producer epoch for each transaction, and add
    no partitions themselves (KIP-890). share.version is 1 for share groups (KIP-932), 2 if they may have dead-letter
    topics (KIP-1191), and 0 if they are switched off: then their APIs answer UNSUPPORTED_VERSION.
    """
    known = (
        Feature(GROUP_VERSION, 0, 1, 1),
        Feature(TRANSACTION_VERSION, 0, 2, levels.transaction),
        Feature(SHARE_VERSION, 0, 2, levels.share),
    )
    return known if release is None else tuple(found for each in known if (found := _as_in(release, each)))


def _as_in(release: Release, known: Feature) -> Feature | None:
    """Return a feature as a release has it; None if it has none, or none of its levels but 0."""
    levels = release.features.get(known.name)
    if levels is None or levels.highest == 0:
        return None
    return Feature(known.name, known.lowest, min(known.highest, levels.highest), min(known.level, levels.level))
