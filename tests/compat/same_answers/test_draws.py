"""Requests are drawn from the declarations: each field of each version at its edges, and the same ones each time."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.protocol.api import encode_request
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.primitives import ZERO_UUID
from tests.compat.same_answers.draws import STRANGE_ID, compared_apis, compared_versions, draws, paths_of, request_of


class _Names(dict[str, Any]):
    """What a cluster would tell."""

    def __missing__(self, name: str) -> Any:
        kinds: dict[str, Any] = {"topic_id": STRANGE_ID, "batch": b"", "subscription": b""}
        return kinds.get(name, 1 if name in ("producer_id", "producer_epoch", "generation") else name)


@pytest.mark.parametrize("key", compared_apis(), ids=lambda key: key.name.lower())
def test_each_field_of_each_version_is_drawn(key: ApiKey) -> None:
    for version in compared_versions(key):
        drawn = draws(key, version)
        assert {path for draw in drawn for path in draw.paths} == set(paths_of(key, version))
        assert len({draw.label for draw in drawn}) == len(drawn)
        for draw in drawn:
            assert encode_request(key, version, 1, "drawn", request_of(key, version, draw, _Names()))


def test_a_field_has_the_edges_of_its_type() -> None:
    labels = [draw.label for draw in draws(ApiKey.HEARTBEAT, 3)]
    of_instance = [label for label in labels if label.startswith("group_instance_id=") and ", " not in label]
    assert of_instance == [f"group_instance_id={edge}" for edge in ("empty", "unknown", "odd", "long")]
    of_generation = [label for label in labels if label.startswith("generation_id=") and ", " not in label]
    assert of_generation == [f"generation_id={edge}" for edge in (-(2**31), -1, 0, 1, 2**31 - 1)]
    assert "topics.topic_id=zero" in [draw.label for draw in draws(ApiKey.FETCH, 13)]


def test_a_right_request_has_each_array_once_and_a_draw_one_other_value() -> None:
    by_label = {draw.label: draw for draw in draws(ApiKey.FETCH, 13)}
    right = request_of(ApiKey.FETCH, 13, by_label["right"], _Names())
    assert [(topic.topic_id, len(topic.partitions)) for topic in right.topics] == [(STRANGE_ID, 1)]
    zero = request_of(ApiKey.FETCH, 13, by_label["topics.topic_id=zero"], _Names())
    assert zero.topics[0].topic_id == ZERO_UUID
    zero.topics[0].topic_id = STRANGE_ID
    assert zero == right
    among = request_of(ApiKey.FETCH, 13, by_label["topics.partitions=among strangers"], _Names())
    assert [each.partition for each in among.topics[0].partitions] == [99, 0, 98]


def test_a_field_in_an_array_that_is_empty_by_default_is_drawn_in_it() -> None:
    by_label = {draw.label: draw for draw in draws(ApiKey.CREATE_TOPICS, 7)}
    drawn = request_of(ApiKey.CREATE_TOPICS, 7, by_label["topics.assignments.partition_index=-1"], _Names())
    (topic,) = drawn.topics
    assert (topic.num_partitions, [each.partition_index for each in topic.assignments]) == (-1, [-1])


def test_the_same_requests_are_drawn_each_time() -> None:
    assert draws(ApiKey.PRODUCE, 9) == draws(ApiKey.PRODUCE, 9)
    assert any(len(draw.paths) == 2 for draw in draws(ApiKey.PRODUCE, 9))
