"""Each API is checked: without ACLs it is refused at Kafka's level, with the ACLs that it needs it passes.

An API that `broker.api.routes` gains needs a case here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from purgatorio.broker.layers.access.guards.whole import anyone
from purgatorio.broker.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from purgatorio.protocol.api import APIS
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages import (
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_share_group_offsets,
    alter_user_scram_credentials,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_records,
    delete_share_group_offsets,
    delete_share_group_state,
    delete_topics,
    describe_configs,
    describe_producers,
    describe_share_group_offsets,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    incremental_alter_configs,
    initialize_share_group_state,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    read_share_group_state,
    read_share_group_state_summary,
    share_acknowledge,
    share_fetch,
    txn_offset_commit,
    write_share_group_state,
    write_txn_markers,
)
from tests.broker.layers.access.guarding import REGISTERED, GuardedBroker, allow, errors, id_of

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
CLUSTER, TXN = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
READ, WRITE, CREATE, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE
ALTER, DESCRIBE, CLUSTER_ACTION = AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
NAMES = {TOPIC: "orders", GROUP: "billing", CLUSTER: CLUSTER_NAME, TXN: "tx"}
CODE = {TOPIC: 29, GROUP: 30, CLUSTER: 31, TXN: 53}
Needed = tuple[AclOperation, ResourceType]


@dataclass(frozen=True)
class Case:
    """A request, and the permissions that it needs, each with the errors of a client that lacks only this one.

    Attributes:
        passes: whether the handler is asked even if something is refused, because the answer is then altered.
    """

    key: ApiKey
    request: Callable[[], Any]
    needs: dict[Needed, set[int]]
    version: int = -1
    passes: bool = False

    def __str__(self) -> str:
        return f"{self.key.name} {self.version}"


def case(key: ApiKey, needs: list[Needed], version: int = -1, /, *, passes: bool = False, **fields: Any) -> Case:
    """A case whose errors are those of the types of resources."""
    told = {each: {CODE[each[1]]} for each in needs}
    return Case(key, lambda: APIS[key].request(**fields), told, version, passes)


def topic_of(kind: Any, **fields: Any) -> list[Any]:
    return [kind(**{"name": "orders", **fields})]


PRODUCED = topic_of(
    produce.TopicProduceData,
    topic_id=id_of("orders"),
    partition_data=[produce.PartitionProduceData(index=0)],
)
FETCHED = [fetch.FetchTopic(topic="orders", topic_id=id_of("orders"), partitions=[fetch.FetchPartition(partition=0)])]
SHARED = [share_fetch.FetchTopic(topic_id=id_of("orders"), partitions=[share_fetch.FetchPartition(partition_index=0)])]
SHARE_ACKNOWLEDGED = [
    share_acknowledge.AcknowledgeTopic(
        topic_id=id_of("orders"), partitions=[share_acknowledge.AcknowledgePartition(partition_index=0)]
    )
]
COMMITTED = topic_of(
    offset_commit.OffsetCommitRequestTopic,
    topic_id=id_of("orders"),
    partitions=[offset_commit.OffsetCommitRequestPartition(partition_index=0)],
)
TXN_COMMITTED = topic_of(
    txn_offset_commit.TxnOffsetCommitRequestTopic,
    topic_id=id_of("orders"),
    partitions=[txn_offset_commit.TxnOffsetCommitRequestPartition(partition_index=0)],
)
GROUP_OFFSETS = offset_fetch.OffsetFetchRequestGroup(
    group_id="billing",
    topics=topic_of(offset_fetch.OffsetFetchRequestTopics, topic_id=id_of("orders"), partition_indexes=[0]),
)
ADDED = topic_of(add_partitions_to_txn.AddPartitionsToTxnTopic, partitions=[0])
TOPIC_RESOURCE = {"resource_type": 2, "resource_name": "orders"}
GROUP_RESOURCE = {"resource_type": 32, "resource_name": "billing"}
BROKER_RESOURCE = {"resource_type": 4, "resource_name": "1"}


def configs(key: ApiKey, operation: AclOperation, resource: Any) -> list[Case]:
    given = ((TOPIC, TOPIC_RESOURCE), (GROUP, GROUP_RESOURCE), (CLUSTER, BROKER_RESOURCE))
    return [case(key, [(operation, kind)], resources=[resource(**fields)]) for kind, fields in given]


CASES = [
    case(ApiKey.PRODUCE, [(WRITE, TOPIC)], acks=-1, topic_data=PRODUCED),
    case(ApiKey.PRODUCE, [(WRITE, TOPIC)], 12, acks=-1, topic_data=PRODUCED),
    case(ApiKey.FETCH, [(READ, TOPIC)], topics=FETCHED),
    case(ApiKey.FETCH, [(READ, TOPIC)], 12, topics=FETCHED),
    Case(
        ApiKey.FETCH,
        lambda: fetch.FetchRequest(replica_state=fetch.ReplicaState(replica_id=2), topics=FETCHED),
        {(CLUSTER_ACTION, CLUSTER): {29}},
    ),
    Case(
        ApiKey.FETCH,
        lambda: fetch.FetchRequest(replica_id=2, topics=FETCHED),
        {(CLUSTER_ACTION, CLUSTER): {29}},
        12,
    ),
    case(ApiKey.SHARE_FETCH, [(READ, GROUP), (READ, TOPIC)], group_id="billing", member_id="ada", topics=SHARED),
    case(
        ApiKey.SHARE_ACKNOWLEDGE,
        [(READ, GROUP), (READ, TOPIC)],
        group_id="billing",
        member_id="ada",
        topics=SHARE_ACKNOWLEDGED,
    ),
    case(
        ApiKey.LIST_OFFSETS,
        [(DESCRIBE, TOPIC)],
        topics=topic_of(list_offsets.ListOffsetsTopic, partitions=[list_offsets.ListOffsetsPartition()]),
    ),
    case(ApiKey.METADATA, [(DESCRIBE, TOPIC)], passes=True, topics=topic_of(metadata.MetadataRequestTopic)),
    case(ApiKey.METADATA, [(DESCRIBE, TOPIC)], 0, passes=True, topics=topic_of(metadata.MetadataRequestTopic)),
    case(
        ApiKey.METADATA,
        [(DESCRIBE, TOPIC)],
        passes=True,
        topics=[metadata.MetadataRequestTopic(name=None, topic_id=id_of("orders"))],
    ),
    case(ApiKey.OFFSET_COMMIT, [(READ, GROUP), (READ, TOPIC)], group_id="billing", topics=COMMITTED),
    case(ApiKey.OFFSET_COMMIT, [(READ, GROUP), (READ, TOPIC)], 9, group_id="billing", topics=COMMITTED),
    case(ApiKey.OFFSET_FETCH, [(DESCRIBE, TOPIC), (DESCRIBE, GROUP)], passes=True, groups=[GROUP_OFFSETS]),
    case(
        ApiKey.OFFSET_FETCH,
        [(DESCRIBE, GROUP), (DESCRIBE, TOPIC)],
        7,
        passes=True,
        group_id="billing",
        topics=topic_of(offset_fetch.OffsetFetchRequestTopic, partition_indexes=[0]),
    ),
    case(ApiKey.FIND_COORDINATOR, [(DESCRIBE, GROUP)], coordinator_keys=["billing"]),
    case(ApiKey.FIND_COORDINATOR, [(CLUSTER_ACTION, CLUSTER)], key_type=2, coordinator_keys=["g:id:0"]),
    case(ApiKey.FIND_COORDINATOR, [(DESCRIBE, TXN)], key_type=1, coordinator_keys=["tx"]),
    case(ApiKey.FIND_COORDINATOR, [(DESCRIBE, GROUP)], 3, key="billing"),
    case(ApiKey.FIND_COORDINATOR, [(DESCRIBE, TXN)], 3, key="tx", key_type=1),
    case(ApiKey.JOIN_GROUP, [(READ, GROUP)], group_id="billing"),
    case(ApiKey.HEARTBEAT, [(READ, GROUP)], group_id="billing"),
    case(ApiKey.LEAVE_GROUP, [(READ, GROUP)], group_id="billing", members=[leave_group.MemberIdentity(member_id="m")]),
    case(ApiKey.SYNC_GROUP, [(READ, GROUP)], group_id="billing"),
    case(ApiKey.DESCRIBE_GROUPS, [(DESCRIBE, GROUP)], groups=["billing"]),
    Case(ApiKey.LIST_GROUPS, APIS[ApiKey.LIST_GROUPS].request, {}),
    Case(ApiKey.API_VERSIONS, APIS[ApiKey.API_VERSIONS].request, {}),
    case(ApiKey.CREATE_TOPICS, [(CREATE, TOPIC)], 4, topics=topic_of(create_topics.CreatableTopic)),
    Case(
        ApiKey.CREATE_TOPICS,
        lambda: create_topics.CreateTopicsRequest(topics=topic_of(create_topics.CreatableTopic)),
        {(CREATE, CLUSTER): {29}},
        4,
    ),
    case(ApiKey.DELETE_TOPICS, [(DELETE, TOPIC)], topics=topic_of(delete_topics.DeleteTopicState)),
    case(ApiKey.DELETE_TOPICS, [(DELETE, TOPIC)], topics=[delete_topics.DeleteTopicState(topic_id=id_of("orders"))]),
    case(ApiKey.DELETE_TOPICS, [(DELETE, TOPIC)], 5, topic_names=["orders"]),
    case(
        ApiKey.DELETE_RECORDS,
        [(DELETE, TOPIC)],
        topics=topic_of(
            delete_records.DeleteRecordsTopic, partitions=[delete_records.DeleteRecordsPartition(partition_index=0)]
        ),
    ),
    case(ApiKey.INIT_PRODUCER_ID, [(WRITE, TXN)], transactional_id="tx"),
    Case(
        ApiKey.INIT_PRODUCER_ID,
        lambda: APIS[ApiKey.INIT_PRODUCER_ID].request(transactional_id=None),
        {(AclOperation.IDEMPOTENT_WRITE, CLUSTER): {31}},
    ),
    Case(
        ApiKey.INIT_PRODUCER_ID,
        lambda: APIS[ApiKey.INIT_PRODUCER_ID].request(transactional_id=None),
        {(WRITE, TOPIC): {31}},
    ),
    case(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        [(DESCRIBE, TOPIC)],
        topics=[
            offset_for_leader_epoch.OffsetForLeaderTopic(
                topic="orders", partitions=[offset_for_leader_epoch.OffsetForLeaderPartition(partition=0)]
            )
        ],
    ),
    case(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        [(WRITE, TXN), (WRITE, TOPIC)],
        3,
        v3_and_below_transactional_id="tx",
        v3_and_below_topics=ADDED,
    ),
    case(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        [(CLUSTER_ACTION, CLUSTER)],
        transactions=[add_partitions_to_txn.AddPartitionsToTxnTransaction(transactional_id="tx", topics=ADDED)],
    ),
    case(ApiKey.ADD_OFFSETS_TO_TXN, [(WRITE, TXN), (READ, GROUP)], transactional_id="tx", group_id="billing"),
    case(ApiKey.END_TXN, [(WRITE, TXN)], transactional_id="tx"),
    *(
        case(
            ApiKey.WRITE_TXN_MARKERS,
            [(operation, CLUSTER)],
            markers=[
                write_txn_markers.WritableTxnMarker(
                    topics=topic_of(write_txn_markers.WritableTxnMarkerTopic, partition_indexes=[0])
                )
            ],
        )
        for operation in (CLUSTER_ACTION, ALTER)
    ),
    case(
        ApiKey.TXN_OFFSET_COMMIT,
        [(WRITE, TXN), (READ, GROUP), (READ, TOPIC)],
        transactional_id="tx",
        group_id="billing",
        topics=TXN_COMMITTED,
    ),
    case(
        ApiKey.DESCRIBE_ACLS,
        [(DESCRIBE, CLUSTER)],
        resource_type_filter=1,
        operation=1,
        permission_type=1,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
    ),
    case(ApiKey.CREATE_ACLS, [(ALTER, CLUSTER)], creations=[create_acls.AclCreation(resource_type=2)]),
    case(
        ApiKey.DELETE_ACLS,
        [(ALTER, CLUSTER)],
        filters=[delete_acls.DeleteAclsFilter(resource_name_filter=None, principal_filter=None, host_filter=None)],
    ),
    *configs(ApiKey.DESCRIBE_CONFIGS, DESCRIBE_CONFIGS, describe_configs.DescribeConfigsResource),
    *configs(ApiKey.ALTER_CONFIGS, ALTER_CONFIGS, alter_configs.AlterConfigsResource),
    *configs(ApiKey.INCREMENTAL_ALTER_CONFIGS, ALTER_CONFIGS, incremental_alter_configs.AlterConfigsResource),
    case(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        [(ALTER, CLUSTER)],
        dirs=[
            alter_replica_log_dirs.AlterReplicaLogDir(
                topics=topic_of(alter_replica_log_dirs.AlterReplicaLogDirTopic, partitions=[0])
            )
        ],
    ),
    case(ApiKey.DESCRIBE_LOG_DIRS, [(DESCRIBE, CLUSTER)], topics=None),
    case(ApiKey.CREATE_PARTITIONS, [(ALTER, TOPIC)], topics=topic_of(create_partitions.CreatePartitionsTopic)),
    case(ApiKey.DELETE_GROUPS, [(DELETE, GROUP)], groups_names=["billing"]),
    case(
        ApiKey.ELECT_LEADERS,
        [(ALTER, CLUSTER)],
        topic_partitions=[elect_leaders.TopicPartitions(topic="orders", partitions=[0])],
    ),
    case(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        [(ALTER, CLUSTER)],
        topics=topic_of(
            alter_partition_reassignments.ReassignableTopic,
            partitions=[alter_partition_reassignments.ReassignablePartition(partition_index=0, replicas=None)],
        ),
    ),
    case(ApiKey.LIST_PARTITION_REASSIGNMENTS, [(DESCRIBE, CLUSTER)], topics=None),
    case(
        ApiKey.OFFSET_DELETE,
        [(DELETE, GROUP), (READ, TOPIC)],
        group_id="billing",
        topics=topic_of(
            offset_delete.OffsetDeleteRequestTopic,
            partitions=[offset_delete.OffsetDeleteRequestPartition(partition_index=0)],
        ),
    ),
    case(ApiKey.DESCRIBE_CLIENT_QUOTAS, [(DESCRIBE_CONFIGS, CLUSTER)]),
    case(
        ApiKey.ALTER_CLIENT_QUOTAS, [(ALTER_CONFIGS, CLUSTER)], entries=[alter_client_quotas.AlterClientQuotasEntry()]
    ),
    case(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, [(DESCRIBE, CLUSTER)], users=None),
    case(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        [(ALTER, CLUSTER)],
        deletions=[alter_user_scram_credentials.ScramCredentialDeletion(name="alice", mechanism=1)],
    ),
    case(ApiKey.DESCRIBE_QUORUM, [(DESCRIBE, CLUSTER)]),
    case(ApiKey.UPDATE_FEATURES, [(ALTER, CLUSTER)]),
    Case(ApiKey.DESCRIBE_CLUSTER, APIS[ApiKey.DESCRIBE_CLUSTER].request, {}),
    case(
        ApiKey.DESCRIBE_PRODUCERS,
        [(READ, TOPIC)],
        topics=topic_of(describe_producers.TopicRequest, partition_indexes=[0]),
    ),
    case(ApiKey.DESCRIBE_TRANSACTIONS, [(DESCRIBE, TXN)], transactional_ids=["tx"]),
    Case(ApiKey.LIST_TRANSACTIONS, APIS[ApiKey.LIST_TRANSACTIONS].request, {}),
    case(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        [(READ, GROUP), (DESCRIBE, TOPIC)],
        group_id="billing",
        subscribed_topic_names=["orders"],
    ),
    case(ApiKey.CONSUMER_GROUP_DESCRIBE, [(DESCRIBE, GROUP)], group_ids=["billing"]),
    case(
        ApiKey.SHARE_GROUP_HEARTBEAT,
        [(READ, GROUP), (DESCRIBE, TOPIC)],
        group_id="billing",
        subscribed_topic_names=["orders"],
    ),
    case(ApiKey.SHARE_GROUP_DESCRIBE, [(DESCRIBE, GROUP)], group_ids=["billing"]),
    case(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        [(DESCRIBE, GROUP), (DESCRIBE, TOPIC)],
        groups=[
            describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(
                group_id="billing",
                topics=[
                    describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic(
                        topic_name="orders", partitions=[0]
                    )
                ],
            )
        ],
        passes=True,
    ),
    case(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        [(READ, GROUP), (READ, TOPIC)],
        group_id="billing",
        topics=[
            alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(
                topic_name="orders",
                partitions=[alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(partition_index=0)],
            )
        ],
    ),
    case(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        [(DELETE, GROUP), (READ, TOPIC)],
        group_id="billing",
        topics=[delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name="orders")],
    ),
    case(ApiKey.LIST_CONFIG_RESOURCES, [(DESCRIBE_CONFIGS, CLUSTER)]),
    *(
        case(
            key,
            [(CLUSTER_ACTION, CLUSTER)],
            group_id="billing",
            topics=[module_topic(topic_id=id_of("orders"), partitions=[entry()])],
        )
        for key, module_topic, entry in (
            (
                ApiKey.INITIALIZE_SHARE_GROUP_STATE,
                initialize_share_group_state.InitializeStateTopic,
                initialize_share_group_state.InitializeStatePartition,
            ),
            (
                ApiKey.READ_SHARE_GROUP_STATE,
                read_share_group_state.ReadStateTopic,
                read_share_group_state.ReadStatePartition,
            ),
            (
                ApiKey.WRITE_SHARE_GROUP_STATE,
                write_share_group_state.WriteStateTopic,
                write_share_group_state.WriteStatePartition,
            ),
            (
                ApiKey.DELETE_SHARE_GROUP_STATE,
                delete_share_group_state.DeleteStateTopic,
                delete_share_group_state.DeleteStatePartition,
            ),
            (
                ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
                read_share_group_state_summary.ReadStateSummaryTopic,
                read_share_group_state_summary.ReadStateSummaryPartition,
            ),
        )
    ),
    case(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS, [(DESCRIBE, TOPIC)], topics=topic_of(describe_topic_partitions.TopicRequest)
    ),
]


def ask(broker: GuardedBroker, each: Case, principal: str = "alice") -> Any:
    version = REGISTERED[each.key].max_version if each.version < 0 else each.version
    return broker.ask(each.key, version, each.request(), principal=principal)


def test_each_api_that_is_not_for_every_client_has_a_case() -> None:
    free = {key for key, api in REGISTERED.items() if api.needs is anyone}
    assert free == {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
    assert set(REGISTERED) - free <= {each.key for each in CASES}


@pytest.mark.parametrize("each", CASES, ids=str)
def test_an_api_passes_with_what_it_needs_and_is_refused_without_any_of_it(each: Case) -> None:
    granted = {need: allow(need[0], need[1], NAMES[need[1]]) for need in each.needs}
    for acls, principal in ((granted.values(), "alice"), ((), "admin")):
        broker = GuardedBroker(acls)
        assert set(errors(ask(broker, each, principal).answer)) <= {0}
        assert len(broker.worked) == 1
        assert not broker.audit.denied
    for missing, expected in each.needs.items():
        broker = GuardedBroker(acl for need, acl in granted.items() if need != missing)
        answer = ask(broker, each).answer
        assert set(errors(answer)) - {0} == expected, missing
        assert not broker.worked or each.passes
        assert broker.audit.denied
        assert ask(broker, each, "bob").ended == "answered"


@pytest.mark.parametrize("each", [each for each in CASES if not each.needs], ids=str)
def test_an_api_that_needs_nothing_is_open_to_all(each: Case) -> None:
    broker = GuardedBroker()
    assert set(errors(ask(broker, each).answer)) <= {0}
    assert len(broker.worked) == 1
