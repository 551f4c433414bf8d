"""The check of each API. One that is not here needs CLUSTER_ACTION on the cluster, as brokers have it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from purgatorio.broker.layers.access.access import Access, Guard
from purgatorio.broker.layers.access.guards import configs, fetch, groups, metadata, topics, transactions
from purgatorio.broker.layers.access.guards.each import EachOne
from purgatorio.broker.layers.access.guards.whole import cluster, either, named
from purgatorio.broker.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from purgatorio.broker.routing.request import Handler, RequestContext, Route
from purgatorio.protocol.api_key import ApiKey

_TOPIC: Final = ResourceType.TOPIC
_GROUP: Final = ResourceType.GROUP
_TRANSACTIONAL_ID: Final = ResourceType.TRANSACTIONAL_ID
_READ: Final = AclOperation.READ
_DESCRIBE: Final = AclOperation.DESCRIBE
_DELETE: Final = AclOperation.DELETE
_ALTER: Final = AclOperation.ALTER

FREE: Final = frozenset((ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))
"""The APIs that every client may use."""


def _is_broker(access: Access, ctx: RequestContext) -> bool:
    return access.of(ctx).allows(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)


GUARDS: Final[Mapping[int, Guard]] = MappingProxyType(
    {
        ApiKey.PRODUCE: topics.produce,
        ApiKey.FETCH: fetch.fetch,
        ApiKey.LIST_OFFSETS: EachOne(ApiKey.LIST_OFFSETS, _DESCRIBE, _TOPIC),
        ApiKey.METADATA: metadata.metadata,
        ApiKey.OFFSET_COMMIT: groups.offset_commit,
        ApiKey.OFFSET_FETCH: groups.offset_fetch,
        ApiKey.FIND_COORDINATOR: transactions.find_coordinator,
        ApiKey.JOIN_GROUP: named(_READ, _GROUP, "group_id"),
        ApiKey.HEARTBEAT: named(_READ, _GROUP, "group_id"),
        ApiKey.LEAVE_GROUP: named(_READ, _GROUP, "group_id"),
        ApiKey.SYNC_GROUP: named(_READ, _GROUP, "group_id"),
        ApiKey.DESCRIBE_GROUPS: EachOne(ApiKey.DESCRIBE_GROUPS, _DESCRIBE, _GROUP, change=groups.tell_operations),
        ApiKey.LIST_GROUPS: groups.list_groups,
        ApiKey.CREATE_TOPICS: topics.create_topics,
        ApiKey.DELETE_TOPICS: topics.delete_topics,
        ApiKey.DELETE_RECORDS: EachOne(ApiKey.DELETE_RECORDS, _DELETE, _TOPIC),
        ApiKey.INIT_PRODUCER_ID: transactions.init_producer_id,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: either(_is_broker, EachOne(ApiKey.OFFSET_FOR_LEADER_EPOCH, _DESCRIBE, _TOPIC)),
        ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions,
        ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets,
        ApiKey.END_TXN: named(AclOperation.WRITE, _TRANSACTIONAL_ID, "transactional_id"),
        ApiKey.WRITE_TXN_MARKERS: transactions.write_markers,
        ApiKey.TXN_OFFSET_COMMIT: transactions.txn_offset_commit,
        ApiKey.DESCRIBE_ACLS: cluster(_DESCRIBE),
        ApiKey.CREATE_ACLS: cluster(_ALTER),
        ApiKey.DELETE_ACLS: cluster(_ALTER),
        ApiKey.DESCRIBE_CONFIGS: configs.resources(AclOperation.DESCRIBE_CONFIGS, "results"),
        ApiKey.ALTER_CONFIGS: configs.resources(AclOperation.ALTER_CONFIGS, "responses"),
        ApiKey.ALTER_REPLICA_LOG_DIRS: cluster(_ALTER),
        ApiKey.DESCRIBE_LOG_DIRS: cluster(_DESCRIBE),
        ApiKey.CREATE_PARTITIONS: EachOne(ApiKey.CREATE_PARTITIONS, _ALTER, _TOPIC),
        ApiKey.DELETE_GROUPS: EachOne(ApiKey.DELETE_GROUPS, _DELETE, _GROUP),
        ApiKey.ELECT_LEADERS: cluster(_ALTER),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.resources(AclOperation.ALTER_CONFIGS, "responses"),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: cluster(_ALTER),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: cluster(_DESCRIBE),
        ApiKey.OFFSET_DELETE: groups.offset_delete,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: cluster(AclOperation.DESCRIBE_CONFIGS),
        ApiKey.ALTER_CLIENT_QUOTAS: cluster(AclOperation.ALTER_CONFIGS),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: cluster(_DESCRIBE),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: cluster(_ALTER),
        ApiKey.DESCRIBE_QUORUM: cluster(_DESCRIBE),
        ApiKey.UPDATE_FEATURES: cluster(_ALTER),
        ApiKey.DESCRIBE_CLUSTER: metadata.describe_cluster,
        ApiKey.DESCRIBE_PRODUCERS: EachOne(ApiKey.DESCRIBE_PRODUCERS, _READ, _TOPIC),
        ApiKey.DESCRIBE_TRANSACTIONS: EachOne(
            ApiKey.DESCRIBE_TRANSACTIONS,
            _DESCRIBE,
            _TRANSACTIONAL_ID,
            change=transactions.hide_topics,
        ),
        ApiKey.LIST_TRANSACTIONS: transactions.list_transactions,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: groups.consumer_group_heartbeat,
        ApiKey.CONSUMER_GROUP_DESCRIBE: EachOne(
            ApiKey.CONSUMER_GROUP_DESCRIBE, _DESCRIBE, _GROUP, change=groups.hide_topics
        ),
        ApiKey.LIST_CONFIG_RESOURCES: cluster(AclOperation.DESCRIBE_CONFIGS),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: topics.describe_topic_partitions,
    }
)
"""The check of each API, by key."""
_UNKNOWN: Final = cluster(AclOperation.CLUSTER_ACTION)


def before(access: Access, key: int, route: Route) -> Handler:
    """Return the handler that stands before that of an API (see `purgatorio.broker.routing.route_layers.Wrap`)."""
    if key in FREE:
        return route.handler
    return partial(GUARDS.get(key, _UNKNOWN), access, route)
