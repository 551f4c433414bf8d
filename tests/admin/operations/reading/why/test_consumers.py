"""The rules about consumers that get nothing."""

from __future__ import annotations

from typing import Any

from purgatorio.admin.operations.reading.why.conclusions import conclude
from purgatorio.admin.operations.reading.why.known import Facts
from tests.admin.operations.reading.why.documents import error, facts, group, member, partition, position, start


def said(document: dict[str, Any], about: str = "") -> list[str]:
    return [each.says for each in conclude(Facts(document), about)]


def test_a_consumer_that_began_at_the_end_has_missed_the_records_before() -> None:
    late = {"positions": [position("late", 1)], "starts": [start("late", -1, 1)]}
    document = facts(partitions=[partition(end=1)], groups=[group("g", member("late", ("orders", 0)))], **late)
    assert said(document) == [
        "late reads orders-0 from offset 1, the end: it asked for the end, after the record (auto.offset.reset="
        "latest, or a seek to the end); to read that, set earliest, or start it before"
    ]
    assert said(document, "g") == said(document, "late") == said(document, "orders") == said(document)
    assert said(document, "other") == []


CALM = "c waits at the end of orders-0 for 2.0 s: no record has come since"


def test_a_consumer_that_has_read_everything_is_not_late() -> None:
    """Its client asks for the ends to show its lag. That it waits for more, as all consumers do, explains nothing."""
    read = {"positions": [position("c", 1, first_offset=0)], "starts": [start("c", -1, 1)]}
    assert said(facts(partitions=[partition(end=1)], **read)) == []


def test_a_consumer_that_has_just_begun_to_wait_explains_nothing() -> None:
    just = [position("c", 0, since_ms=99_900)]
    assert said(facts(partitions=[partition()], positions=just)) == []


def test_a_consumer_at_the_end_of_an_empty_partition_has_missed_nothing() -> None:
    assert said(facts(partitions=[partition()], positions=[position("c", 0)], starts=[start("c", -1, 0)])) == [CALM]


def test_that_nothing_is_wrong_is_said_where_nothing_else_is() -> None:
    idle = group("g", member("c", ("orders", 0)), member("two"))
    document = facts(partitions=[partition()], positions=[position("c", 0)], groups=[idle])
    assert said(document) == [
        "two owns no partition: orders has one, which c owns; for it to read, give orders more "
        "partitions, or two another group.id"
    ]
    assert said(document, "c") == [CALM]


def offset(topic: str, number: int, committed: int | None, owner: str = "") -> dict[str, Any]:
    return {"topic": topic, "partition": number, "offset": committed, "end_offset": 0, "lag": None, "owner": owner}


def test_a_group_that_has_read_everything_goes_on_at_the_end() -> None:
    """The member is gone by now: it was closed before the report was made."""
    joined = [{"client": "receipts", "group": "billing", "at_ms": 90_000, "rebalance_timeout_ms": -1}]
    document = facts(
        partitions=[partition(end=2)],
        positions=[position("receipts", 2)],
        groups=[group("billing", offsets=[offset("orders", 0, 2)], state="Empty")],
        joined=joined,
    )
    (sentence,) = said(document, "billing")
    assert sentence == (
        "billing goes on at its committed offset 2, the end of orders-0: it has read what is before; reset its "
        "offsets, or take another group.id, to read that again"
    )
    document["positions"] = [position("receipts", 2, first_offset=1)]
    assert said(document) == []


def test_a_second_consumer_of_a_client_id_goes_on_where_the_first_one_was() -> None:
    """As many clients have the same id by default: the start is that of the first one, which began earlier."""
    document = facts(
        partitions=[partition(end=1)],
        positions=[position("kgo", 1)],
        starts=[start("kgo", -2, 0)],
        groups=[group("billing", offsets=[offset("orders", 0, 1)], state="Empty")],
        joined=[{"client": "kgo", "group": "billing", "at_ms": 97_500}],
    )
    assert said(document)[0].startswith("billing goes on at its committed offset 1, the end of orders-0")
    document["starts"] = [start("kgo", -1, 1)]  # the first one may have read nothing, and committed the end
    assert said(document) == [KGO_CALM]
    document["starts"] = [{**start("kgo", -2, 0), "at_ms": 97_600}]
    assert said(document) == [KGO_CALM]


KGO_CALM = "kgo waits at the end of orders-0 for 2.0 s: no record has come since"


def test_the_start_of_an_earlier_consumer_of_a_client_id_is_not_that_of_the_later_one() -> None:
    late = {"positions": [position("kgo", 1)], "starts": [start("kgo", -1, 1)]}
    joined = [{"client": "kgo", "group": "billing", "at_ms": 97_500}]
    assert said(facts(partitions=[partition(end=1)], joined=joined, **late)) == [KGO_CALM]


def test_of_two_groups_that_a_client_id_was_in_the_later_one_goes_on() -> None:
    groups = [group(each, offsets=[offset("orders", 0, 1)], state="Empty") for each in ("audit", "billing")]
    joined = [{"client": "kgo", "group": each, "at_ms": at} for each, at in (("audit", 90_000), ("billing", 97_000))]
    document = facts(partitions=[partition(end=1)], positions=[position("kgo", 1)], groups=groups, joined=joined)
    assert [each.partition(" goes")[0] for each in said(document)] == ["billing"]


def test_of_two_members_of_one_client_id_it_is_not_known_who_goes_on() -> None:
    members = [member("kgo", ("orders", 0), member_id="kgo-a"), member("kgo", ("orders", 1), member_id="kgo-b")]
    of_both = group("billing", *members, offsets=[offset("orders", 0, 1)])
    assert said(facts(partitions=[partition(end=1)], positions=[position("kgo", 1)], groups=[of_both])) == [KGO_CALM]


def test_a_member_without_a_partition_is_named_with_those_that_have_them() -> None:
    members = [member("one", ("orders", 0)), member("two")]
    document = facts(partitions=[partition()], groups=[group("g", *members)])
    assert said(document) == [
        "two owns no partition: orders has one, which one owns; for it to read, give orders more "
        "partitions, or two another group.id"
    ]
    assert said(document, "two") == said(document, "g") == said(document, "orders") == said(document)
    document["groups"][0]["state"] = "CompletingRebalance"
    assert said(document) == []


def test_members_of_one_client_id_are_named_by_their_member_ids() -> None:
    members = [
        member("rdkafka", ("orders", 0), ("orders", 1), member_id="rdkafka-a"),
        member("rdkafka", member_id="rdkafka-b"),
        member("rdkafka", member_id="rdkafka-c"),
    ]
    assert said(facts(groups=[group("g", *members)])) == [
        "rdkafka-b and rdkafka-c own no partition: orders has 2, which rdkafka-a owns; for them to read, give "
        "orders more partitions, or them another group.id"
    ]


def test_a_member_that_waits_explains_nothing_when_another_one_has_just_left() -> None:
    """The failure is probably about the one that left, which got nothing."""
    gone = {"at_ms": 99_000, "epoch": 2, "member_count": 1, "cause": "leave", "detail": "member two"}
    of_both = group("g", member("one", ("orders", 0)), rebalances=[gone])
    document = facts(partitions=[partition()], positions=[position("one", 0)], groups=[of_both])
    assert said(document) == []
    gone["at_ms"] = 80_000
    assert said(document) == [CALM.replace("c ", "one ", 1)]


def test_a_rebalance_waits_for_a_member_that_does_not_poll() -> None:
    waits_for = "rebalance of g waits for member two"
    members = [member("one"), member("two", ("orders", 0), waits_for="has to join again")]
    parked = [{"group": "g", "client": "one", "waited_ms": 3_200, "purgatory": "Rebalance", "causes": []}]
    document = facts(
        groups=[group("g", *members, state="PreparingRebalance", waits_for=waits_for)], parked=parked, parked_count=1
    )
    assert said(document) == ["g is rebalancing: waits for member two, 3.2 s"]
    document["idle_requests"] = [{"client": "two", "api": "Heartbeat", "errors": [], "count": 3, "last_ms": 99_000}]
    assert said(document) == [
        "g is rebalancing: waits for member two, 3.2 s; two sends heartbeats, and must call poll to join again"
    ]


def test_a_rebalance_that_has_just_begun_explains_nothing() -> None:
    """Members join with their next heartbeats, which come soon."""
    waits_for = "rebalance of g waits for member one"
    parked = [{"group": "g", "client": "two", "waited_ms": 40, "purgatory": "Rebalance", "causes": []}]
    joining = group("g", member("one"), member("two"), state="PreparingRebalance", waits_for=waits_for)
    assert said(facts(groups=[joining], parked=parked, parked_count=1)) == []


def test_a_group_of_the_consumer_protocol_rebalances_since_its_epoch_began() -> None:
    began = {"at_ms": 98_000, "epoch": 3, "member_count": 2, "cause": "join", "detail": "member two"}
    waits_for = "epoch 3 of g waits for a heartbeat of member one"
    reconciling = group("g", state="Reconciling", type="consumer", waits_for=waits_for, rebalances=[began])
    assert said(facts(groups=[reconciling])) == ["g is rebalancing: waits for a heartbeat of member one, 2.0 s"]


BEFORE = "late was connected before the last reset of the cluster, and "
CLOSE = "; if an earlier test left it open, close it there"


def test_a_client_of_an_earlier_test_is_named_as_such() -> None:
    """Its own troubles are not those of this test, and come behind."""
    late = {"positions": [position("late", 1)], "starts": [start("late", -1, 1)], "clients": ["late"]}
    found = said(facts(partitions=[partition(end=1)], left_over=["late"], **late))
    assert found[0] == f"{BEFORE}reads orders-0{CLOSE}"
    assert found[1].startswith("late reads orders-0 from offset 1, the end")
    late["positions"].append(position("reader", 0, last_ms=99_000, is_waiting=False, was_given=True))
    found = said(facts(partitions=[partition(end=1)], left_over=["late"], **{**late, "clients": ["late", "reader"]}))
    assert found[0].startswith("reader has not fetched from orders-0")


def test_a_client_of_an_earlier_test_may_create_a_topic_before_the_test() -> None:
    asked = [{"client": "late", "software": "", "may_create": False, "apis": ["Metadata"], "topics": ["orders"]}]
    document = facts(partitions=[partition()], asked=asked, left_over=["late"], clients=["late"])
    assert said(document) == [f"{BEFORE}asks for orders{CLOSE}"]


def test_a_client_of_an_earlier_test_takes_the_partitions_of_a_group() -> None:
    shared = group("billing", member("late", ("orders", 0)), member("reader"))
    document = facts(partitions=[partition(end=1)], groups=[shared], clients=["late", "reader"], left_over=["late"])
    assert said(document)[0] == f"{BEFORE}is in billing with reader{CLOSE}"
    assert said({**document, "left_over": []})[0].startswith("reader owns no partition")


def test_a_client_of_an_earlier_test_that_reads_nothing_is_not_named() -> None:
    reads = [position("late", 1, topic="_schemas")]
    assert said(facts(partitions=[partition(end=1)], clients=["late"], left_over=["late"], positions=reads)) == []


def test_records_in_a_partition_that_is_not_read_are_found() -> None:
    partitions = [partition(), partition(number=1, end=3)]
    document = facts(partitions=partitions, positions=[position("c", 0)])
    assert said(document) == ["c is assigned orders-0; the records are in orders-1; assign that"]
    document["positions"].append(position("c", 3, number=1))
    assert said(document) == ["c waits at the end of orders-0 and orders-1 for 2.0 s: no record has come since"]


def test_a_consumer_of_which_not_all_partitions_are_known_may_read_the_others() -> None:
    partitions = [partition(), partition(number=1, end=3)]
    document = facts(partitions=partitions, positions=[position("c", 0, fetched_count=9)])
    assert said(document) == ["c waits at the end of orders-0 and 8 more for 2.0 s: no record has come since"]


def test_a_member_that_has_not_fetched_yet_is_assigned_what_it_owns() -> None:
    partitions = [partition(), partition(number=1, end=3)]
    owner = group("g", member("c", ("orders", 0), ("orders", 1)))
    document = facts(partitions=partitions, positions=[position("c", 0)], groups=[owner])
    assert said(document) == ["c waits at the end of orders-0 for 2.0 s: no record has come since"]


def test_records_in_a_partition_that_another_member_reads_are_found_with_it() -> None:
    members = [member("one", ("orders", 0)), member("two", ("orders", 1))]
    partitions = [partition(), partition(number=1, end=3)]
    document = facts(partitions=partitions, positions=[position("one", 0)], groups=[group("g", *members)])
    assert said(document) == ["one is assigned orders-0; the records are in orders-1, which two owns"]


def test_a_fetch_waits_for_more_bytes_than_there_are() -> None:
    waiting = position("c", 0, min_bytes=100_000, available_bytes=12)
    document = facts(partitions=[partition(end=1)], positions=[waiting])
    assert said(document) == ["c's fetch waits for fetch.min.bytes: 12 of 100000 bytes"]


def test_a_consumer_that_does_not_poll_is_named_while_it_is_connected() -> None:
    slow = position("slow", 0, is_waiting=False, was_given=True, last_ms=96_000)
    document = facts(partitions=[partition(end=5)], positions=[slow], clients=["slow"])
    assert said(document) == ["slow has not fetched from orders-0 for 4.0 s: it does not poll, or has paused it"]
    document["clients"] = []
    assert said(document) == []


def test_a_member_that_was_taken_for_dead_is_named() -> None:
    over = {"at_ms": 99_000, "epoch": 1, "member_count": 1, "cause": "session over", "detail": "member one-1f"}
    assert said(facts(groups=[group("g", member("two", ("orders", 0)), rebalances=[over])])) == [
        "member one-1f was removed from g 1.0 s ago: no heartbeat for session.timeout.ms"
    ]


def left(detail: str, at_ms: int = 99_000) -> dict[str, Any]:
    """A rebalance since a member left."""
    return {"at_ms": at_ms, "epoch": 1, "member_count": 0, "cause": "leave", "detail": detail}


def test_a_client_that_left_between_two_polls_did_not_poll_in_time() -> None:
    slow = position("slow", 0, is_waiting=False, was_given=True, last_ms=98_500)
    group_left = group("g", state="Empty", rebalances=[left("member slow-1f: consumer poll timeout has expired.")])
    document = facts(partitions=[partition(end=5)], positions=[slow], clients=["slow"], groups=[group_left])
    assert said(document) == [
        "slow left g 1.0 s ago, as it had not polled for 0.5 s: it commits nothing any more; poll more often, or raise "
        "max.poll.interval.ms"
    ]


def test_a_client_that_was_closed_or_came_back_has_not_left_like_that() -> None:
    slow = position("slow", 0, is_waiting=False, was_given=True, last_ms=98_500)
    gone = group("g", state="Empty", rebalances=[left("member slow-1f")])
    back = group("g", member("slow", ("orders", 0)), rebalances=[left("member slow-1f")])
    soon = group("g", state="Empty", rebalances=[left("member slow-1f", at_ms=98_600)])
    for clients, its_group in (([], gone), (["slow"], back), (["slow"], soon)):
        document = facts(partitions=[partition(end=5)], positions=[slow], clients=clients, groups=[its_group])
        assert not any("slow left" in each for each in said(document))


def test_a_commit_that_comes_too_late_is_named() -> None:
    row = error("slow", "OffsetCommit", "UNKNOWN_MEMBER_ID", topics=["orders"])
    assert said(facts(errors=[row])) == [
        "OffsetCommit of slow is refused, UNKNOWN_MEMBER_ID: its group has gone on without it"
    ]
    assert said(facts(errors=[error("slow", "Heartbeat", "UNKNOWN_MEMBER_ID")])) == []


def test_a_commit_after_the_session_has_ended_names_that_first() -> None:
    row = error("slow", "OffsetCommit", "UNKNOWN_MEMBER_ID", topics=["orders"])
    over = {**left("member slow-73d3cf76-1702-42e3-89ad-263394b2c63a"), "cause": "session over"}
    first = said(facts(errors=[row], groups=[group("g", state="Empty", rebalances=[over])]))[0]
    assert first == (
        "slow's session in g ended 1.0 s ago, without a heartbeat in time: OffsetCommit of slow is refused, "
        "UNKNOWN_MEMBER_ID"
    )
    of_another = {**over, "detail": "member slow-one-73d3cf76-1702-42e3-89ad-263394b2c63a"}
    assert "session in" not in said(facts(errors=[row], groups=[group("g", rebalances=[of_another])]))[0]


def test_a_client_that_may_have_unsubscribed_has_not_failed_to_poll() -> None:
    slow = position("slow", 0, is_waiting=False, was_given=True, last_ms=98_500)
    gone = group("g", state="Empty", rebalances=[left("member slow-1f: no reason given")])
    common = {"partitions": [partition(end=5)], "positions": [slow], "clients": ["slow"], "groups": [gone]}
    for interval_ms, count in ((300_000, 0), (500, 1), (-1, 0)):
        joined = [{"client": "slow", "group": "g", "at_ms": 1, "rebalance_timeout_ms": interval_ms}]
        assert sum("max.poll.interval.ms" in each for each in said(facts(**common, joined=joined))) == count
    assert not any("slow left" in each for each in said(facts(**common)))


def test_members_that_have_left_together_are_explained_as_they_were() -> None:
    """Java's try-with-resources closes its consumers before the report is made."""
    gone = {"at_ms": 95_000, "members": [member("one", ("orders", 0)), member("two")]}
    document = facts(groups=[group("g", state="Empty", departed=gone)])
    assert said(document) == [
        "two owned no partition: orders has one, which one owned; for it to read, give orders more "
        "partitions, or two another group.id"
    ]
    gone["at_ms"] = 50_000
    assert said(document) == []
