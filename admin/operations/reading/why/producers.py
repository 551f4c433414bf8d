"""Rules about producers whose records are not acknowledged, or not even sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from purgatorio.admin.operations.declare import Answer
from purgatorio.admin.operations.reading.why.known import NOTED, STUCK, Conclusion, Facts
from purgatorio.admin.operations.reading.why.known import name_of as partition_of
from purgatorio.admin.operations.reading.why.refusals import REFUSED, fault_of, is_over, name_of
from purgatorio.broker.causes.words import listed, seconds
from purgatorio.broker.metadata.topic_name import is_internal

ACKS_MS: Final = 200
"""Followers of a healthy cluster need less."""
TOO_FEW: Final = ("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND")
BEFORE_RECORDS: Final = frozenset(("ApiVersions", "Metadata", "InitProducerId"))
"""The APIs that a producer asks before it sends records."""
LIBRDKAFKA: Final = ("librdkafka", "confluent-kafka-")
"""How the names of client software begin whose consumers look for their group's coordinator first."""


OF_COORDINATORS: Final = frozenset(
    (
        *("OffsetCommit", "JoinGroup", "SyncGroup", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "LeaveGroup"),
        *("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"),
    )
)
"""The APIs whose requests a coordinator answers when its own record is acknowledged; a client sets no acks for it."""
PAST_MS: Final = 12_000
"""A wait that ended longer ago explains nothing any more: the producer has tried again, or was another test's."""


def waits_for_acknowledgement(facts: Facts) -> Iterator[Conclusion]:
    """Yield producers whose records have been waiting for followers, or waited until their time was over."""
    seen = set()
    for row in (*facts.parked, *facts.ended):
        behind = [cause for cause in row["causes"] if isinstance(cause, dict) and cause.get("kind") == "FollowerBehind"]
        if row["purgatory"] != "Produce" or not row["client"] or not behind:
            continue
        first = behind[0]
        brokers = sorted({cause["broker_id"] for cause in behind if cause["tp"] == first["tp"]})
        trouble = [_trouble(facts, broker_id) for broker_id in brokers]
        is_parked = "outcome" not in row
        if (row["waited_ms"] < ACKS_MS and not any(trouble)) or (row["client"], first["tp"]) in seen:
            continue
        topic = first["tp"].rpartition("-")[0]
        if not is_parked and _is_past(facts, row):
            continue
        seen.add((row["client"], first["tp"]))
        held = [(number, words) for number, words in zip(brokers, trouble, strict=True) if words]
        if is_internal(topic):
            yield from _waits_of_coordinator(facts, row, topic, held)
            continue
        waits = f"waits for acks=all of {first['tp']}" if is_parked else f"got no acks=all for {first['tp']}"
        after = "" if is_parked else f" ({row['outcome']} after {seconds(row['waited_ms'])})"
        states = listed([_state(cause, is_parked) for cause in behind if cause["tp"] == first["tp"]])
        why = f", which {held[0][1]}; {_way_out(*held[0])}, or set acks=1" if held else ""
        says = f"{row['client']} {waits}{after}: {states}{why}"
        yield Conclusion(says, (row["client"], topic), STUCK + 2)


def _is_past(facts: Facts, row: Answer) -> bool:
    """Return whether a wait that has ended is long ago, or the client's later requests of its kind went well."""
    if facts.now_ms - row["done_ms"] > PAST_MS:
        return True
    internal = is_internal(row["causes"][0]["tp"].rpartition("-")[0])
    kinds = OF_COORDINATORS if internal else frozenset(("Produce",))
    return any(
        each["client"] == row["client"]
        and each["api"] in kinds
        and each["at_ms"] >= row["done_ms"]
        and each["ended"] == "answered"
        and not each["errors"]
        for each in facts.document["requests"]
    )


def _waits_of_coordinator(facts: Facts, row: Answer, topic: str, held: list[tuple[int, str]]) -> Iterator[Conclusion]:
    """Yield which request of a client waits for the record that its coordinator writes, if a broker is held up."""
    apis = [
        each["api"]
        for each in facts.document["requests"]
        if each["client"] == row["client"] and each["ended"] == "waiting" and each["api"] in OF_COORDINATORS
    ]
    if held and "outcome" not in row:
        what = apis[-1] if apis else f"request that writes to {topic}"
        broker, trouble = held[0]
        says = f"{row['client']}'s {what} waits for broker {broker}, which {trouble}; {_way_out(broker, trouble)}"
        yield Conclusion(says, (row["client"], topic), STUCK + 2)


def _state(cause: Answer, is_parked: bool) -> str:
    verb = "is" if is_parked else "was"
    if cause["at_offset"] < 0:
        return f"broker {cause['broker_id']} {'has' if is_parked else 'had'} fetched nothing"
    return f"broker {cause['broker_id']} {verb} at {cause['at_offset']} of {cause['wanted_offset']}"


def _trouble(facts: Facts, broker_id: int) -> str:
    """Return how a broker is held up, as the end of "broker 2, which"; "" if it is not."""
    for row in facts.brokers:
        if row["id"] == broker_id:
            if row["state"] != "running":
                return "does not run"
            if row["paused"]:
                return "is paused"
            if row["follower"] and row["follower"]["held"]:
                return "is held"
            if row["cut_off_from"]:
                return f"is cut off from {listed([str(each) for each in row['cut_off_from']])}"
    return ""


def _way_out(broker_id: int, trouble: str) -> str:
    if trouble == "does not run":
        return f"start broker {broker_id}"
    if trouble == "is paused":
        return f"resume broker {broker_id}"
    if trouble == "is held":
        return f"release broker {broker_id}"
    return "heal the network"


def has_too_few_replicas(facts: Facts) -> Iterator[Conclusion]:
    """Yield producers that are refused as fewer replicas are in sync than min.insync.replicas."""
    for row in facts.errors:
        if not set(TOO_FEW) & set(row["errors"]) or is_over(facts, row) or fault_of(facts, row) is not None:
            continue
        for topic in row["topics"]:
            weak = [each for each in facts.topics.get(topic, ()) if len(each["isr"]) < len(each["replicas"])]
            if weak:
                says = f"{row['api']} of {name_of(row)} is refused, {TOO_FEW[0]}: {_weak(weak[0])}"
                yield Conclusion(says, (row["client"], topic), REFUSED)


def _weak(row: Answer) -> str:
    out = sorted({replica["broker"] for replica in row["replicas"]} - set(row["isr"]))
    brokers = f"broker {out[0]}" if len(out) == 1 else f"brokers {listed([str(each) for each in out])}"
    return (
        f"{partition_of(row)} has {len(row['isr'])} of {len(row['replicas'])} replicas in sync, fewer than "
        f"min.insync.replicas; bring {brokers} back, or lower that"
    )


def has_sent_nothing(facts: Facts) -> Iterator[Conclusion]:
    """Yield producers that asked where a topic is, and never sent anything.

    A consumer that has only subscribed asks for the same, but for that of some clients.
    """
    connected = set(facts.document["clients"])
    for row in facts.document["asked"]:
        topics = [each for each in row["topics"] if each in facts.topics]
        produces = "InitProducerId" in row["apis"] or row["software"].startswith(LIBRDKAFKA)
        if row["client"] in connected and produces and topics and BEFORE_RECORDS.issuperset(row["apis"]):
            says = (
                f"{name_of(row)} knows where {listed(topics)} is, and has sent no record: it holds what it was given; "
                f"flush() it, await what send() returns, or lower linger.ms"
            )
            yield Conclusion(says, (row["client"], *topics), NOTED + 10)


RULES: Final = (waits_for_acknowledgement, has_too_few_replicas, has_sent_nothing)
