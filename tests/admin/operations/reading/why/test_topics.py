"""The rules about topics that do not exist, or that have another name."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.admin.operations.reading.why import topics
from tests.admin.operations.reading.why.documents import error, facts, partition, position, request, said

MISSING = "UNKNOWN_TOPIC_OR_PARTITION"
USER: dict[str, Any] = {"client": "c", "software": "", "may_create": False, "apis": ["FindCoordinator"], "topics": []}


def lacking(*topics: str, **more: Any) -> dict[str, Any]:
    """A client that wants to read or write, and was refused for these topics."""
    return {"errors": [error("c", "Metadata", MISSING, topics=[each]) for each in topics], "asked": [USER], **more}


def test_a_missing_topic_has_the_nearest_of_those_that_exist() -> None:
    document = facts(
        partitions=[partition("orders"), partition("payments")],
        **lacking("order"),
    )
    assert said(document) == [
        "c asks for topic order, which does not exist; did you mean orders? Correct the name, or create the topic"
    ]
    assert said(document, "order") == said(document, "c") == said(document)


def test_without_a_near_name_those_that_exist_are_listed_and_bounded() -> None:
    assert said(facts(**lacking("x"))) == ["c asks for topic x, which does not exist, and there is no other; create it"]
    assert said(facts(**lacking("x"), partitions=[partition("orders")])) == [
        "c asks for topic x, which does not exist; there is orders. Correct the name, or create the topic"
    ]
    many = [partition(f"topic-{number}") for number in range(9)]
    assert said(facts(**lacking("x"), partitions=many)) == [
        "c asks for topic x, which does not exist; there are topic-0, topic-1, topic-2, topic-3 and topic-4 and 4 more"
        ". Correct the name, or create the topic"
    ]


def test_a_topic_that_was_created_later_is_not_missing() -> None:
    document = facts(partitions=[partition("orders")], **lacking("orders"))
    assert said(document) == []


def test_a_client_that_only_asks_whether_a_topic_is_there_makes_no_mistake() -> None:
    document = facts(partitions=[partition("orders")], **lacking("order"))
    assert said({**document, "asked": [{**USER, "apis": ["ApiVersions", "Metadata"]}]}) == []
    assert said({**document, "asked": [{**USER, "apis": [], "may_create": True}]}) == said(document) != []


def test_a_client_that_asks_for_a_missing_topic_again_and_again_wants_to_use_it() -> None:
    """As consumers of franz-go and producers of kafkajs do, which send nothing else before they know the topic."""
    document = facts(partitions=[partition("orders")], **lacking("order"))
    document["errors"][0]["count"] = 2
    assert said({**document, "asked": [{**USER, "apis": ["ApiVersions", "Metadata"]}]}) == said(document) != []


def test_a_name_that_was_corrected_is_no_mistake_any_more() -> None:
    document = facts(partitions=[partition("orders", end=1)], **lacking("order"))
    reads = position("c", 1, first_offset=0)
    assert said({**document, "positions": [reads]}) == []
    assert said({**document, "requests": [request("c", "Produce", topics=["orders"])]}) == []
    other = facts(partitions=[partition("bills", end=1)], positions=[position("c", 1, "bills", first_offset=0)])
    assert len(said({**other, **lacking("order")})) == 1, "it reads one of two"
    assert said({**other, **lacking("order"), "requests": [request("c", "Metadata", topics=["bills"])]}) == []


def test_of_very_many_topics_nothing_is_said() -> None:
    assert said(facts(**lacking("x"), topic_count=2_000)) == []


def test_an_empty_topic_beside_a_full_one_of_nearly_the_same_name() -> None:
    partitions = [partition("orders"), partition("order", end=2)]
    document = facts(partitions=partitions, positions=[position("c", 0)])
    assert said(document)[-1] == "c reads orders, which is empty: order has 2 records. Correct the name"


def test_few_of_many_names_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison with a thousand topics takes milliseconds, in which the event loop does nothing else."""
    compared: list[str] = []

    def nearest(topic: str, names: object) -> str:
        compared.append(topic)
        return ""

    monkeypatch.setattr(topics, "nearest", nearest)
    missing = [error("app", "Metadata", topics.MISSING, topics=[f"missing-{number}"]) for number in range(100)]
    some = facts(partitions=[partition("orders", end=1)], errors=missing, asked=[{**USER, "client": "app"}])
    assert len(said(some)) == 100
    assert compared == [f"missing-{number}" for number in range(topics.MAX_COMPARED)]
    compared.clear()
    rows = [partition(f"empty-{number}") for number in range(100)]
    readers = [position(f"reader-{number}", 0, f"empty-{number}") for number in range(100)]
    said(facts(partitions=[*rows, partition("orders", end=1)], positions=[*readers, *readers]))
    assert len(compared) == topics.MAX_COMPARED


def test_a_very_long_name_is_not_compared() -> None:
    assert topics.nearest("x" * topics.MAX_COMPARED_CHARS, ["x" * topics.MAX_COMPARED_CHARS])
    assert topics.nearest("x" * 249, ["x" * 248]) == ""


def test_a_topic_that_was_created_as_it_was_asked_for_may_be_misspelt() -> None:
    asked = error("shipping", "Metadata", "UNKNOWN_TOPIC_OR_PARTITION", topics=["order"])
    document = facts(partitions=[partition("order", end=1), partition("orders")], errors=[asked])
    begins = "shipping asked for topic order, which was not there yet: there is"
    assert said(document) == [f"{begins} orders, too, which is empty; is order misspelt?"]
    document["partitions"] = [partition("order"), partition("orders", end=2)]
    assert said(document) == [f"{begins} orders, too, which has 2 records; is order misspelt?"]
    document["partitions"] = [partition("order", end=1), partition("orders", end=2)]
    assert said(document) == []


def test_a_topic_whose_name_has_a_word_more_is_not_misspelt() -> None:
    asked = error("shipping", "Metadata", "UNKNOWN_TOPIC_OR_PARTITION", topics=["orders-dlq"])
    document = facts(partitions=[partition("orders-dlq"), partition("orders", end=2)], errors=[asked])
    assert said(document) == []
