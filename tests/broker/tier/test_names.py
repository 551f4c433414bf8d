"""Tests of the names of objects."""

from __future__ import annotations

import pytest

from purgatorio.broker.tier.names import DESCRIPTION, LOG, SegmentName, partition_folder, segment_of

NAME = SegmentName(1200, 3, 1, "0123456789abcdef" * 2)


def test_a_name_is_found_again_in_the_key_of_its_description() -> None:
    folder = partition_folder("cluster", bytes(16), 2)
    assert folder == f"cluster/{'00' * 16}/2/"
    assert segment_of(f"{folder}{NAME}{DESCRIPTION}") == NAME


def test_names_sort_by_their_start_offsets() -> None:
    names = [NAME._replace(start_offset=offset) for offset in (9, 10, 2**40)]
    assert sorted(map(str, names)) == list(map(str, names))


@pytest.mark.parametrize(
    "key",
    [
        f"a/b/0/{NAME}{LOG}",
        f"a/b/0/{NAME}",
        "a/b/0/.json",
        "a/b/0/1-2-3-4.json",
        f"a/b/0/{NAME._replace(id='x' * 32)}{DESCRIPTION}",
        f"a/b/0/-{NAME}{DESCRIPTION}",
        f"a/b/0/{str(NAME).replace('1200', '١٢٠٠')}{DESCRIPTION}",
        f"a/b/0/0{NAME}{DESCRIPTION}",
    ],
)
def test_other_objects_describe_no_segment(key: str) -> None:
    assert segment_of(key) is None
