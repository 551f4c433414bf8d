"""How a change that names thousands of things is cut into slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from purgatorio.broker.metadata.cluster_change import SLICE_WEIGHT, only_tried, slices
from purgatorio.broker.metadata.image import ClusterImage


def test_few_things_are_one_slice() -> None:
    assert slices("abc", str) == [["a", "b", "c"]]
    assert slices("", str) == [[]]


def test_many_things_are_cut_and_none_is_lost() -> None:
    cut = slices(range(3 * SLICE_WEIGHT + 1), str)
    assert [len(each) for each in cut] == [SLICE_WEIGHT] * 3 + [1]
    assert [each for one in cut for each in one] == list(range(3 * SLICE_WEIGHT + 1))


def test_what_is_named_twice_stays_together() -> None:
    names = [*map(str, range(2 * SLICE_WEIGHT)), "0"]
    assert slices(names, str)[0][:2] == ["0", "0"]


def test_heavy_things_make_slices_of_few() -> None:
    cut = slices(range(5), str, lambda _: SLICE_WEIGHT // 2)
    assert [len(each) for each in cut] == [2, 2, 1]
    assert [len(each) for each in slices(range(3), str, lambda _: 10 * SLICE_WEIGHT)] == [1, 1, 1]


def test_a_trial_sees_the_slices_before_it_and_changes_nothing() -> None:
    def count(image: ClusterImage) -> tuple[ClusterImage, Sequence[int]]:
        return replace(image, next_producer_id=image.next_producer_id + 1), [image.next_producer_id]

    image = ClusterImage(version=1, cluster_id="c")
    first, second = only_tried([count, count])
    assert first(image) == (image, [0])
    assert second(image) == (image, [1])
    assert second(image) == (image, [1]), "a decision may be made several times"
