"""Reads a cluster, as JSON documents with which operations answer; each reader documents the fields of its part.

Points in time end in ``_ms`` and are on the cluster's monotonic clock, as `now_ms` of the same document is. Long lists
are cut; a number beside them is their full length.
"""

from typing import Final

OPERATIONS_PER_PURGATORY: Final = 60
"""Parked operations of each purgatory in the state: with three brokers and five purgatories each, up to 900."""
