"""Tests of the rules for topic names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatorio.broker.metadata.topic_name import collision_key, is_internal, topic_name_problem


@pytest.mark.parametrize("name", ["a", "x" * 249, "A.b_c-9", "...", "__consumer_offsets"])
def test_names_that_kafka_allows_are_allowed(name: str) -> None:
    assert topic_name_problem(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "é", "a\n", "a\x00"])
def test_names_that_kafka_refuses_are_refused_with_a_reason(name: str) -> None:
    assert topic_name_problem(name)


@given(st.text(max_size=300))
def test_a_name_is_allowed_exactly_if_it_is_short_and_of_the_right_characters(name: str) -> None:
    right = all(character.isascii() and (character.isalnum() or character in "._-") for character in name)
    allowed = right and 0 < len(name) <= 249 and name not in {".", ".."}
    assert (topic_name_problem(name) is None) == allowed


def test_dots_and_underscores_collide() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c")
    assert collision_key("a.b") != collision_key("a-b")


def test_internal_topics_are_those_that_brokers_keep_their_state_in() -> None:
    assert is_internal("__consumer_offsets")
    assert not is_internal("__orders")
