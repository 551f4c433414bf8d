"""The partition of a group or a transactional id."""

from __future__ import annotations

import pytest

from purgatorio.protocol.coordinator_partition import coordinator_partition


@pytest.mark.parametrize(
    ("key", "partition"),
    [
        ("", 0),
        ("billing", 9),
        ("my-group", 12),
        ("gruppe-ü", 22),
        ("😀", 49),  # two UTF-16 code units
        ("polygenelubricants", 0),  # its hash is the smallest number, which has no positive counterpart
    ],
)
def test_a_key_has_the_partition_that_kafka_gives_it(key: str, partition: int) -> None:
    assert coordinator_partition(key, 50) == partition
    assert coordinator_partition(key, 1) == 0
