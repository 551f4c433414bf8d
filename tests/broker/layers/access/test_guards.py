"""What clients see of a request of which a part is allowed, and of answers that hide what they may not see."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.metadata.acls import AclOperation, PermissionType, ResourceType
from purgatorio.logger import LINES_PER_PERIOD, PERIOD_MS
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages import (
    consumer_group_describe,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_topic_partitions,
    describe_transactions,
    find_coordinator,
    list_groups,
    list_transactions,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
)
from purgatorio.protocol.primitives import ZERO_UUID
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.broker.layers.access.guarding import GuardedBroker, allow, fetches, id_of
from tests.logs import capture_logs

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
CLUSTER, TXN = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


# --- a part of a request ---


def produced(*topics: str, acks: int = -1, transactional_id: str | None = None, records: bytes = b"") -> Any:
    return produce.ProduceRequest(
        acks=acks,
        transactional_id=transactional_id,
        topic_data=[
            produce.TopicProduceData(name=name, partition_data=[produce.PartitionProduceData(index=0, records=records)])
            for name in topics
        ],
    )


def names(topics: Any, attribute: str = "name") -> list[Any]:
    return [getattr(each, attribute) for each in topics]


def test_the_allowed_topics_are_worked_on_and_the_others_are_refused() -> None:
    broker = GuardedBroker([allow(WRITE, TOPIC, "orders")])
    answer = broker.ask(ApiKey.PRODUCE, 12, produced("secret", "orders", "unknown")).answer
    assert names(broker.worked[0].topic_data) == ["orders"]
    codes = {each.name: each.partition_responses[0].error_code for each in answer.responses}
    assert codes == {"orders": 0, "secret": DENIED, "unknown": DENIED}


def test_a_produce_without_answer_is_done_as_far_as_it_is_allowed_and_then_the_connection_closes() -> None:
    broker = GuardedBroker([allow(WRITE, TOPIC, "orders")])
    assert broker.ask(ApiKey.PRODUCE, 12, produced("secret", "orders", acks=0)).ended == "closed"
    assert names(broker.worked[0].topic_data) == ["orders"]
    assert broker.ask(ApiKey.PRODUCE, 12, produced("orders", acks=0)).ended == "unanswered"
    assert broker.ask(ApiKey.PRODUCE, 12, produced("secret", acks=0)).ended == "closed"
    assert len(broker.worked) == 2


def test_a_transactional_batch_anywhere_in_a_produce_needs_the_transactional_id() -> None:
    """CVE-2018-17196: only the first batch of a request was looked at."""
    plain = bytes(build_batch([Record(0, 0, b"k", b"v", ())]))
    transactional = bytearray(plain)
    transactional[22] |= 0x10
    for order in ((plain, bytes(transactional)), (bytes(transactional), plain)):
        request = produced("orders", "orders", transactional_id="tx")
        for topic, records in zip(request.topic_data, order, strict=True):
            topic.partition_data[0].records = records
        broker = GuardedBroker([allow(WRITE, TOPIC, "orders")])
        for _ in range(2):
            answer = broker.ask(ApiKey.PRODUCE, 12, request).answer
            codes = [part.error_code for each in answer.responses for part in each.partition_responses]
            assert codes == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2
            assert not broker.worked
            broker.ask(ApiKey.PRODUCE, 12, produced("orders"))  # from now on it is known that it may write
            broker.worked.clear()
    idle = produced("orders", transactional_id="tx", records=plain)
    assert GuardedBroker([allow(WRITE, TOPIC, "orders")]).ask(ApiKey.PRODUCE, 12, idle).answer
    assert broker.audit.denied


def test_ids_of_topics_are_checked_each_even_behind_one_without_an_id() -> None:
    broker = GuardedBroker([allow(READ, TOPIC, "*"), allow(READ, GROUP, "g"), deny(READ, TOPIC, "secret")])
    partitions = [offset_commit.OffsetCommitRequestPartition(partition_index=0)]
    request = offset_commit.OffsetCommitRequest(
        group_id="g",
        topics=[
            offset_commit.OffsetCommitRequestTopic(topic_id=topic_id, partitions=partitions)
            for topic_id in (ZERO_UUID, id_of("secret"), id_of("orders"), b"?" * 16)
        ],
    )
    answer = broker.ask(ApiKey.OFFSET_COMMIT, 10, request).answer
    refused = [each.topic_id for each in answer.topics if each.partitions[0].error_code]
    assert refused == [id_of("secret")]


def deny(operation: AclOperation, kind: ResourceType, name: str) -> Any:
    return allow(operation, kind, name, permission=PermissionType.DENY)


def test_config_resources_have_the_error_of_their_type() -> None:
    broker = GuardedBroker([allow(AclOperation.DESCRIBE_CONFIGS, TOPIC, "orders")])
    wanted = ((2, "orders"), (2, "secret"), (32, "g"), (4, "1"), (8, "1"))
    request = describe_configs.DescribeConfigsRequest(
        resources=[
            describe_configs.DescribeConfigsResource(resource_type=kind, resource_name=name) for kind, name in wanted
        ]
    )
    answer = broker.ask(ApiKey.DESCRIBE_CONFIGS, 4, request).answer
    codes = {(each.resource_type, each.resource_name): each.error_code for each in answer.results}
    assert codes == {(2, "orders"): 0, (2, "secret"): 29, (32, "g"): 30, (4, "1"): 31, (8, "1"): 31}
    del request.resources[0]
    assert len(broker.ask(ApiKey.DESCRIBE_CONFIGS, 4, request).answer.results) == 4
    assert len(broker.worked) == 1


def test_coordinators_are_told_for_the_allowed_keys() -> None:
    broker = GuardedBroker([allow(DESCRIBE, GROUP, "mine")])
    request = find_coordinator.FindCoordinatorRequest(coordinator_keys=["theirs", "mine"])
    answer = broker.ask(ApiKey.FIND_COORDINATOR, 6, request).answer
    assert {each.key: each.error_code for each in answer.coordinators} == {"mine": 0, "theirs": 30}
    unknown = find_coordinator.FindCoordinatorRequest(key_type=7, coordinator_keys=["share"])
    assert broker.ask(ApiKey.FIND_COORDINATOR, 6, unknown).answer
    assert len(broker.worked) == 2


def test_who_may_create_a_topic_sees_its_configs_only_if_it_may_describe_them() -> None:
    def created(request: Any) -> Any:
        topic = create_topics.CreatableTopicResult(name="new", num_partitions=3, replication_factor=1, configs=[])
        return create_topics.CreateTopicsResponse(topics=[topic])

    request = create_topics.CreateTopicsRequest(topics=[create_topics.CreatableTopic(name="new")])
    for acls, told in (((), (29, -1)), ((allow(AclOperation.DESCRIBE_CONFIGS, TOPIC, "new"),), (0, 3))):
        broker = GuardedBroker([allow(AclOperation.CREATE, CLUSTER), *acls])
        broker.answers[ApiKey.CREATE_TOPICS] = created
        (topic,) = broker.ask(ApiKey.CREATE_TOPICS, 7, request).answer.topics
        assert (topic.topic_config_error_code, topic.num_partitions) == told
        assert topic.error_code == ErrorCode.NONE


def test_a_topic_that_is_deleted_by_its_id_is_named_only_if_it_may_be_described() -> None:
    request = delete_topics.DeleteTopicsRequest(topics=[delete_topics.DeleteTopicState(topic_id=id_of("secret"))])
    (hidden,) = GuardedBroker().ask(ApiKey.DELETE_TOPICS, 6, request).answer.responses
    assert (hidden.name, hidden.topic_id, hidden.error_code) == (None, id_of("secret"), DENIED)
    describing = GuardedBroker([allow(DESCRIBE, TOPIC, "secret")])
    assert describing.ask(ApiKey.DELETE_TOPICS, 6, request).answer.responses[0].name == "secret"
    by_both = [delete_topics.DeleteTopicState(name="mine", topic_id=id_of("secret"))]
    mixed = GuardedBroker([allow(AclOperation.DELETE, TOPIC, "mine")])
    answer = mixed.ask(ApiKey.DELETE_TOPICS, 6, delete_topics.DeleteTopicsRequest(topics=by_both)).answer
    assert answer.responses[0].error_code == DENIED
    assert not mixed.worked
    some = delete_topics.DeleteTopicsRequest(topic_names=["secret", "mine"])
    assert {each.name: each.error_code for each in mixed.ask(ApiKey.DELETE_TOPICS, 5, some).answer.responses} == {
        "mine": 0,
        "secret": DENIED,
    }


# --- Metadata ---


def shown(request: metadata.MetadataRequest) -> metadata.MetadataResponse:
    """What the handler answers: the topics that are asked for, or both of the image, with all operations."""
    asked = ["orders", "secret"] if not request.topics else names(request.topics)
    return metadata.MetadataResponse(
        topics=[
            metadata.MetadataResponseTopic(name=name, topic_id=id_of(name), topic_authorized_operations=3576)
            for name in asked
        ],
        cluster_authorized_operations=8096,
    )


def asks_metadata(broker: GuardedBroker, version: int, topics: list[str] | None, **fields: Any) -> Any:
    broker.answers[ApiKey.METADATA] = shown
    asked = None if topics is None else [metadata.MetadataRequestTopic(name=name) for name in topics]
    return broker.ask(ApiKey.METADATA, version, metadata.MetadataRequest(topics=asked, **fields)).answer


def test_all_topics_are_those_that_may_be_described() -> None:
    broker = GuardedBroker([allow(READ, TOPIC, "orders")])
    assert names(asks_metadata(broker, 13, None).topics) == ["orders"]
    assert names(asks_metadata(broker, 0, []).topics) == ["orders"]
    assert names(asks_metadata(GuardedBroker(), 13, None).topics) == []


def test_a_topic_that_may_not_be_described_looks_the_same_whether_it_exists_or_not() -> None:
    broker = GuardedBroker([allow(READ, TOPIC, "orders")])
    for version in (0, 9, 13):
        topics = asks_metadata(broker, version, ["secret", "missing", "orders"]).topics
        told = {each.name: (each.error_code, each.topic_id if version >= 10 else b"") for each in topics}
        nothing = (DENIED, ZERO_UUID if version >= 10 else b"")
        assert told == {"orders": (0, id_of("orders") if version >= 10 else b""), "secret": nothing, "missing": nothing}
    assert {each.error_code for each in asks_metadata(broker, 0, ["secret"]).topics} == {DENIED}
    by_id = [metadata.MetadataRequestTopic(name=None, topic_id=id_of("secret"))]
    answer = broker.ask(ApiKey.METADATA, 13, metadata.MetadataRequest(topics=by_id)).answer
    assert [(each.name, each.topic_id, each.error_code) for each in answer.topics] == [(None, id_of("secret"), DENIED)]


@pytest.mark.parametrize(
    ("acls", "passed"),
    [
        ([allow(DESCRIBE, TOPIC, "new")], []),
        ([allow(DESCRIBE, TOPIC, "new"), allow(AclOperation.CREATE, TOPIC, "new")], ["new"]),
        ([allow(DESCRIBE, TOPIC, "new"), allow(AclOperation.CREATE, CLUSTER)], ["new"]),
        ([allow(AclOperation.CREATE, CLUSTER)], []),
    ],
)
def test_a_topic_is_created_by_a_client_that_may_create_it(acls: list[Any], passed: list[str]) -> None:
    broker = GuardedBroker(acls)
    (topic,) = asks_metadata(broker, 13, ["new"], allow_auto_topic_creation=True).topics
    assert topic.error_code == (0 if passed else DENIED)
    assert names(broker.worked[0].topics) == passed


def test_a_topic_that_no_request_would_create_needs_no_permission_to_be_created() -> None:
    acls = [allow(DESCRIBE, TOPIC, "new"), allow(DESCRIBE, TOPIC, "__consumer_offsets"), allow(DESCRIBE, TOPIC, "?")]
    asked = ["new", "__consumer_offsets", "?"]
    for broker, creates in ((GuardedBroker(acls), False), (GuardedBroker(acls, auto_create=False), True)):
        asks_metadata(broker, 13, asked, allow_auto_topic_creation=creates)
        assert names(broker.worked[0].topics) == asked
    creating = GuardedBroker(acls)
    asks_metadata(creating, 13, asked, allow_auto_topic_creation=True)
    assert names(creating.worked[0].topics) == asked[1:]


# --- authorized operations (KIP-430) ---

READS = 1 << READ | 1 << DESCRIBE


def test_clients_are_told_what_they_may_do() -> None:
    broker = GuardedBroker([allow(READ, TOPIC, "orders"), allow(READ, GROUP, "g")])
    asked = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    answer = asks_metadata(broker, 10, ["orders"], **asked)
    assert answer.topics[0].topic_authorized_operations == READS
    assert answer.cluster_authorized_operations == 0
    described = describe_groups.DescribedGroup(group_id="g", authorized_operations=3400)
    broker.answers[ApiKey.DESCRIBE_GROUPS] = lambda _: describe_groups.DescribeGroupsResponse(groups=[described])
    wanted = describe_groups.DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
    assert broker.ask(ApiKey.DESCRIBE_GROUPS, 6, wanted).answer.groups[0].authorized_operations == READS


@pytest.mark.parametrize(
    ("acls", "operations"),
    [([], 0), ([allow(AclOperation.CREATE, CLUSTER)], 0), ([allow(AclOperation.ALTER, CLUSTER)], 1 << 7 | 1 << 8)],
)
def test_what_may_be_done_with_the_cluster_is_told_to_clients_that_may_describe_it(
    acls: list[Any], operations: int
) -> None:
    broker = GuardedBroker(acls)
    answer = describe_cluster.DescribeClusterResponse(cluster_authorized_operations=8096)
    broker.answers[ApiKey.DESCRIBE_CLUSTER] = lambda _: answer
    wanted = describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert broker.ask(ApiKey.DESCRIBE_CLUSTER, 2, wanted).answer.cluster_authorized_operations == operations
    unasked = describe_cluster.DescribeClusterRequest()
    assert broker.ask(ApiKey.DESCRIBE_CLUSTER, 2, unasked).answer.cluster_authorized_operations == operations


# --- what is left out ---


def pages(request: Any) -> Any:
    kind = describe_topic_partitions.DescribeTopicPartitionsResponseTopic
    return describe_topic_partitions.DescribeTopicPartitionsResponse(
        topics=[kind(name=each.name, topic_authorized_operations=3576) for each in request.topics]
    )


def test_descriptions_of_all_topics_have_those_that_may_be_described() -> None:
    broker = GuardedBroker([allow(READ, TOPIC, "orders")])
    broker.answers[ApiKey.DESCRIBE_TOPIC_PARTITIONS] = pages
    everything = describe_topic_partitions.DescribeTopicPartitionsRequest()
    (topic,) = broker.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, everything).answer.topics
    assert (topic.name, topic.topic_authorized_operations) == ("orders", READS)
    assert GuardedBroker().ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, everything).answer.topics == []
    some = [describe_topic_partitions.TopicRequest(name=name) for name in ("apples", "orders", "secret")]
    cursor = describe_topic_partitions.Cursor(topic_name="orders", partition_index=0)
    second = describe_topic_partitions.DescribeTopicPartitionsRequest(topics=some, cursor=cursor)
    topics = broker.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, second).answer.topics
    assert {each.name: each.error_code for each in topics} == {"orders": 0, "secret": DENIED}
    cursor.topic_name = "zzz"
    assert broker.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, second).answer.topics == []


def test_listings_have_what_may_be_described() -> None:
    groups = list_groups.ListGroupsResponse(
        groups=[list_groups.ListedGroup(group_id=name) for name in ("mine", "theirs")]
    )
    transactions = list_transactions.ListTransactionsResponse(
        transaction_states=[list_transactions.ListedTransaction(transactional_id=name) for name in ("mine", "theirs")]
    )
    cases = (
        ([allow(READ, GROUP, "mine"), allow(WRITE, TXN, "mine")], ["mine"], ["mine"]),
        ([allow(DESCRIBE, CLUSTER)], ["mine", "theirs"], []),
        ([], [], []),
    )
    for acls, seen_groups, seen_transactions in cases:
        broker = GuardedBroker(acls)
        broker.answers[ApiKey.LIST_GROUPS] = lambda _: groups
        broker.answers[ApiKey.LIST_TRANSACTIONS] = lambda _: transactions
        groups.groups = [list_groups.ListedGroup(group_id=name) for name in ("mine", "theirs")]
        listed = broker.ask(ApiKey.LIST_GROUPS, 5, list_groups.ListGroupsRequest()).answer.groups
        assert names(listed, "group_id") == seen_groups
        found = broker.ask(ApiKey.LIST_TRANSACTIONS, 1, list_transactions.ListTransactionsRequest()).answer
        assert names(found.transaction_states, "transactional_id") == seen_transactions
        assert not broker.audit.denied


def test_a_transactions_topics_are_those_that_may_be_described() -> None:
    broker = GuardedBroker([allow(DESCRIBE, TXN, "tx"), allow(READ, TOPIC, "orders")])
    topics = [describe_transactions.TopicData(topic=name, partitions=[0]) for name in ("orders", "secret")]
    state = describe_transactions.DescribedTransaction(transactional_id="tx", topics=topics)
    answer = describe_transactions.DescribeTransactionsResponse(transaction_states=[state])
    broker.answers[ApiKey.DESCRIBE_TRANSACTIONS] = lambda _: answer
    request = describe_transactions.DescribeTransactionsRequest(transactional_ids=["tx"])
    (described,) = broker.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, request).answer.transaction_states
    assert names(described.topics, "topic") == ["orders"]


@pytest.mark.parametrize("place", ["assignment", "target_assignment"])
def test_a_consumer_group_with_a_topic_that_may_not_be_described_is_refused(place: str) -> None:
    def answer(request: Any) -> Any:
        topics = [consumer_group_describe.TopicPartitions(topic_name=name) for name in ("orders", "secret")]
        member = consumer_group_describe.Member(**{place: consumer_group_describe.Assignment(topic_partitions=topics)})
        group = consumer_group_describe.DescribedGroup(group_id="g", members=[member])
        return consumer_group_describe.ConsumerGroupDescribeResponse(groups=[group])

    request = consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=["g"])
    acls = [allow(DESCRIBE, GROUP, "g"), allow(READ, TOPIC, "orders")]
    for more, code in (((), DENIED), ((allow(READ, TOPIC, "secret"),), 0)):
        broker = GuardedBroker([*acls, *more])
        broker.answers[ApiKey.CONSUMER_GROUP_DESCRIBE] = answer
        (group,) = broker.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, request).answer.groups
        assert group.error_code == code
        assert bool(group.members) == (not code)


# --- OffsetFetch ---


def committed(request: Any) -> Any:
    """The handler's answer: offset 5 in each topic that is asked for, or in both of the image."""
    answered = []
    for group in request.groups:
        ids = [id_of("orders"), id_of("secret")] if group.topics is None else names(group.topics, "topic_id")
        partitions = [offset_fetch.OffsetFetchResponsePartitions(committed_offset=5)]
        topics = [offset_fetch.OffsetFetchResponseTopics(topic_id=each, partitions=partitions) for each in ids]
        answered.append(offset_fetch.OffsetFetchResponseGroup(group_id=group.group_id, topics=topics))
    return offset_fetch.OffsetFetchResponse(groups=answered)


def test_committed_offsets_of_each_group_are_those_of_topics_that_may_be_described() -> None:
    broker = GuardedBroker([allow(READ, GROUP, "mine"), allow(READ, GROUP, "ours"), allow(READ, TOPIC, "orders")])
    broker.answers[ApiKey.OFFSET_FETCH] = committed
    asked = [
        offset_fetch.OffsetFetchRequestTopics(topic_id=id_of(name), partition_indexes=[0])
        for name in ("secret", "orders")
    ]
    request = offset_fetch.OffsetFetchRequest(
        groups=[
            offset_fetch.OffsetFetchRequestGroup(group_id="theirs", topics=None),
            offset_fetch.OffsetFetchRequestGroup(group_id="mine", topics=None),
            offset_fetch.OffsetFetchRequestGroup(group_id="ours", topics=asked),
        ]
    )
    groups = {each.group_id: each for each in broker.ask(ApiKey.OFFSET_FETCH, 10, request).answer.groups}
    assert groups["theirs"].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert names(groups["mine"].topics, "topic_id") == [id_of("orders")]
    ours = [(each.topic_id, each.partitions[0].error_code) for each in groups["ours"].topics]
    assert ours == [(id_of("orders"), 0), (id_of("secret"), DENIED)]


def test_a_group_whose_offsets_are_all_asked_for_twice_is_asked_for_once() -> None:
    """The handler answers it once; each answer has to be filtered by the topics of its own question."""
    broker = GuardedBroker([allow(READ, GROUP, "mine"), allow(READ, TOPIC, "orders")])
    broker.answers[ApiKey.OFFSET_FETCH] = committed
    all_of_mine = offset_fetch.OffsetFetchRequestGroup(group_id="mine", topics=None)
    request = offset_fetch.OffsetFetchRequest(groups=[all_of_mine] * 3)
    (mine,) = broker.ask(ApiKey.OFFSET_FETCH, 10, request).answer.groups
    assert names(mine.topics, "topic_id") == [id_of("orders")]


def test_before_version_8_all_committed_offsets_are_filtered_too() -> None:
    broker = GuardedBroker([allow(READ, GROUP, "mine"), allow(READ, TOPIC, "orders")])
    broker.answers[ApiKey.OFFSET_FETCH] = lambda _: offset_fetch.OffsetFetchResponse(
        topics=[offset_fetch.OffsetFetchResponseTopic(name=name) for name in ("orders", "secret")]
    )
    request = offset_fetch.OffsetFetchRequest(group_id="mine", topics=None)
    assert names(broker.ask(ApiKey.OFFSET_FETCH, 7, request).answer.topics) == ["orders"]


# --- the audit ---


def test_refusals_are_counted_and_logged_a_few_lines_at_a_time() -> None:
    broker = GuardedBroker()
    with capture_logs() as logs:
        for _ in range(LINES_PER_PERIOD + 5):
            broker.ask(ApiKey.PRODUCE, 12, produced("secret", "x" * 500))
        broker.ask(ApiKey.FETCH, 16, fetches("secret"))
        broker.clock.advance_ms(PERIOD_MS)
        broker.ask(ApiKey.PRODUCE, 12, produced("secret"))
    assert broker.audit.denied[ApiKey.PRODUCE, WRITE, TOPIC] == 2 * (LINES_PER_PERIOD + 5) + 1
    assert len(logs) == LINES_PER_PERIOD + 2
    first, last = logs[0], logs[-1]
    told = {key: first[key] for key in ("principal", "host", "operation", "resource", "api", "client_id", "broker")}
    assert told == {
        "principal": "User:alice",
        "host": "127.0.0.1",
        "operation": "WRITE",
        "resource": "TOPIC:secret",
        "api": "PRODUCE",
        "client_id": "till",
        "broker": 1,
    }
    assert first["resources_more"] == 1
    assert last["lines_left_out"] == 5
