"""What clients see of share groups whose topics they may not describe."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from purgatorio.broker.metadata.acls import AclOperation, ResourceType
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages import describe_share_group_offsets as offsets
from purgatorio.protocol.messages import share_fetch
from purgatorio.protocol.messages import share_group_describe as describe
from tests.broker.layers.access.guarding import GuardedBroker, allow, id_of

TOPIC, GROUP, DESCRIBE = ResourceType.TOPIC, ResourceType.GROUP, AclOperation.DESCRIBE
ACLS = [allow(DESCRIBE, GROUP, "jobs"), allow(DESCRIBE, GROUP, "others"), allow(DESCRIBE, TOPIC, "orders")]


def group(group_id: str, *topics: str) -> offsets.DescribeShareGroupOffsetsRequestGroup:
    asked = [offsets.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[0, 1]) for name in topics]
    return offsets.DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=asked or None)


def answer_all(request: Any) -> Any:
    """Answer with all topics that are asked for, or with both if none is named."""
    groups = []
    for asked in request.groups:
        names = ["orders", "secret"] if asked.topics is None else [each.topic_name for each in asked.topics]
        partition = offsets.DescribeShareGroupOffsetsResponsePartition(partition_index=0, start_offset=5, lag=2)
        topics = [
            offsets.DescribeShareGroupOffsetsResponseTopic(topic_name=name, partitions=[partition]) for name in names
        ]
        groups.append(offsets.DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id, topics=topics))
    return offsets.DescribeShareGroupOffsetsResponse(groups=groups)


def ask(*groups: offsets.DescribeShareGroupOffsetsRequestGroup) -> tuple[GuardedBroker, dict[str, Any]]:
    broker = GuardedBroker(ACLS)
    broker.answers[ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS] = answer_all
    request = offsets.DescribeShareGroupOffsetsRequest(groups=list(groups))
    answer = broker.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, request).answer
    return broker, {each.group_id: each for each in answer.groups}


def test_all_topics_are_those_that_a_client_may_describe() -> None:
    broker, answers = ask(group("jobs"))
    assert [each.topic_name for each in answers["jobs"].topics] == ["orders"]
    assert not broker.audit.denied


def test_named_topics_are_refused_by_their_partitions() -> None:
    broker, answers = ask(group("jobs", "secret", "orders"), group("hidden", "orders"), group("others", "orders"))
    (worked,) = broker.worked
    assert [[each.topic_name for each in asked.topics] for asked in worked.groups] == [["orders"], ["orders"]]
    orders, secret = answers["jobs"].topics
    assert [each.start_offset for each in orders.partitions] == [5]
    told = [(each.partition_index, each.error_code, each.start_offset, each.lag) for each in secret.partitions]
    assert told == [(each, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1, -1) for each in (0, 1)]
    assert (answers["hidden"].error_code, answers["hidden"].topics) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])
    assert len(answers["others"].topics) == 1


def test_what_is_asked_for_twice_is_asked_for_once() -> None:
    broker, answers = ask(group("jobs"), group("hidden"), group("jobs"), group("hidden"))
    (worked,) = broker.worked
    assert [each.group_id for each in worked.groups] == ["jobs"]
    assert sorted(answers) == ["hidden", "jobs"]


def test_a_request_of_which_all_is_refused_reaches_no_handler() -> None:
    broker, answers = ask(group("hidden"))
    assert (answers["hidden"].error_code, broker.worked) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])


def test_a_group_with_a_topic_that_a_client_may_not_describe_is_refused() -> None:
    def answer(request: Any) -> Any:
        described = []
        for group_id, topic in (("jobs", "orders"), ("others", "secret")):
            partitions = [describe.TopicPartitions(topic_name=topic, partitions=[0])]
            member = describe.Member(member_id="m", assignment=describe.Assignment(topic_partitions=partitions))
            described.append(describe.DescribedGroup(group_id=group_id, members=[member]))
        return describe.ShareGroupDescribeResponse(groups=described)

    broker = GuardedBroker(ACLS)
    broker.answers[ApiKey.SHARE_GROUP_DESCRIBE] = answer
    request = describe.ShareGroupDescribeRequest(group_ids=["jobs", "others"], include_authorized_operations=True)
    jobs, others = broker.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, request).answer.groups
    assert (jobs.error_code, len(jobs.members)) == (0, 1)
    assert (others.error_code, others.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])


TOPIC, GROUP, READ = ResourceType.TOPIC, ResourceType.GROUP, AclOperation.READ


def fetches(*topics: str, epoch: int = 1) -> Any:
    return share_fetch.ShareFetchRequest(
        group_id="jobs",
        member_id="ada",
        share_session_epoch=epoch,
        max_wait_ms=500,
        topics=[
            share_fetch.FetchTopic(topic_id=id_of(topic), partitions=[share_fetch.FetchPartition(partition_index=0)])
            for topic in topics
        ],
    )


def test_a_refused_topic_is_told_at_once_beside_those_that_may_be_read() -> None:
    broker = GuardedBroker([allow(READ, GROUP, "jobs"), allow(READ, TOPIC, "orders")])
    answer = broker.ask(ApiKey.SHARE_FETCH, 2, fetches("orders", "secret")).answer
    told = [(each.topic_id, each.partitions[0].error_code) for each in answer.responses]
    assert (id_of("secret"), ErrorCode.TOPIC_AUTHORIZATION_FAILED) in told
    (worked,) = broker.worked
    assert ([each.topic_id for each in worked.topics], worked.max_wait_ms) == ([id_of("orders")], 0)


def test_a_session_is_over_once_its_member_may_not_read_one_of_its_topics() -> None:
    readable = [allow(READ, GROUP, "jobs"), allow(READ, TOPIC, "orders"), allow(READ, TOPIC, "secret")]
    broker = GuardedBroker(readable)
    partitions = {name: SimpleNamespace(tp=SimpleNamespace(topic=name)) for name in ("orders", "secret")}
    session = SimpleNamespace(partitions=partitions, readable_by=None)
    broker.share_sessions["jobs", "ada"] = session
    assert broker.ask(ApiKey.SHARE_FETCH, 2, fetches("orders")).answer.error_code == 0
    assert session.readable_by is not None
    broker.acls = dict.fromkeys(readable[:2])
    answer = broker.ask(ApiKey.SHARE_FETCH, 2, fetches("orders")).answer
    assert answer.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert len(broker.worked) == 1


def test_a_request_without_a_group_is_refused() -> None:
    broker = GuardedBroker([allow(READ, GROUP, "jobs")])
    request = fetches()
    request.group_id = None
    assert broker.ask(ApiKey.SHARE_FETCH, 2, request).answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
