"""The rules about consumers whose records are in the tier."""

from __future__ import annotations

from typing import Any

from purgatorio.broker.causes.cause import TierRead
from purgatorio.broker.causes.words import as_document, in_words
from purgatorio.broker.log.topic_partition import TopicPartition
from tests.admin.operations.reading.why.documents import facts, said

TP = TopicPartition("orders", 0)
RULE = {"id": 4, "rule": {"tier": "get", "hold": True, "name": "hold reads"}, "text": "…", "held": 1}


def waiting(held_by: int | None = None, trouble: str = "", *, done_ms: int | None = None) -> dict[str, Any]:
    """A fetch that waits, or ended without what it waited for, as the lists of operations have it."""
    cause = TierRead(TP, 0, 1200, "s3://shop", 1_900, 3, trouble, True, held_by)
    text = in_words([cause])
    row = {"purgatory": "RemoteFetch", "client": "billing", "causes": [as_document(cause, 500)], "waited_ms": 340}
    return row | ({"missing": text} if done_ms is None else {"detail": text, "done_ms": done_ms})


def test_a_consumer_whose_read_is_held_is_named_with_the_rule_to_release() -> None:
    sentence = (
        "billing waits for orders-0 [0, 1200) to come back from s3://shop: 1.9 s, held by rule 4; "
        "release fault rule 4 (hold reads)"
    )
    for document in (
        facts(parked=[waiting(4)], faults=[RULE]),
        facts(ended=[waiting(4, done_ms=99_000)], faults=[RULE]),
    ):
        assert said(document) == said(document, "billing") == [sentence]
        assert said(document, "till") == []


def test_what_was_let_go_or_is_long_over_is_not_said() -> None:
    assert said(facts(ended=[waiting(4, done_ms=99_000)])) == []
    assert said(facts(ended=[waiting(4, done_ms=99_000)], faults=[RULE | {"held": 0}])) == []
    assert said(facts(ended=[waiting(done_ms=80_000)])) == []


def test_a_consumer_that_waits_for_a_store_that_fails_is_named_with_its_trouble() -> None:
    (sentence,) = said(facts(parked=[waiting(trouble="503")]))
    assert sentence.startswith("billing waits for orders-0 [0, 1200) to come back from s3://shop: 1.9 s")
    assert sentence.endswith("third try (503)")


def test_an_error_of_a_fetch_is_laid_to_the_rule_that_fails_reads() -> None:
    fired = {"client": "", "rule": 4, "api": "tier get", "partitions": ["orders-0"], "action": "Refused"}
    error = {"client": "billing", "api": "Fetch", "errors": ["UNKNOWN_SERVER_ERROR"], "topics": ["orders"], "count": 3}
    error |= {"transactional_id": "", "first_ms": 99_000, "last_ms": 99_500}
    sentence = (
        "billing gets UNKNOWN_SERVER_ERROR for orders: fault rule 4 (hold reads) acts on reads of the tier (Refused); "
        "remove it"
    )
    assert sentence in said(facts(errors=[error], fired=[fired], faults=[RULE]))
    assert sentence not in said(facts(errors=[error], fired=[fired | {"api": "tier put"}], faults=[RULE]))
