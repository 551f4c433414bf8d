"""What members of share groups see of topics that they may not read, or may read no more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from purgatorio.broker.metadata.acls import AclOperation, ResourceType
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages import share_fetch
from tests.broker.layers.access.guarding import GuardedBroker, allow, id_of

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
