"""Which API is answered by which handler, in which versions; ApiVersions tells clients exactly this table."""

from __future__ import annotations

from functools import partial
from typing import Any

from purgatorio.broker.api import (
    alter_configs,
    alter_partition_reassignments,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_topic_partitions,
    elect_leaders,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.api.fetch import FetchHandler
from purgatorio.broker.api.fetch import error_response as fetch_error_response
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.request import Route, Routes
from purgatorio.protocol.api_key import ApiKey


def build_routes(admin: AdminContext, replicas: ReplicaManager, *, fetch_max_bytes: int) -> Routes:
    """The table of one broker."""
    store = admin.store
    fetch = FetchHandler(replicas, lambda: store.image, max_bytes=fetch_max_bytes)
    producer_ids = init_producer_id.ProducerIds(store)
    routes: dict[int, Route] = {
        ApiKey.PRODUCE: Route(partial(produce.handle, replicas), 0, 11, produce.error_response, min_answered_version=3),
        ApiKey.FETCH: Route(fetch.handle, 4, 16, fetch_error_response),
        ApiKey.LIST_OFFSETS: _route(list_offsets, replicas, 1, 10),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: _route(offset_for_leader_epoch, replicas, 2, 4),
        ApiKey.INIT_PRODUCER_ID: _route(init_producer_id, producer_ids, 0, 5),
        ApiKey.METADATA: _route(metadata, admin, 0, 13),
        ApiKey.CREATE_TOPICS: _route(create_topics, admin, 2, 7),
        ApiKey.DELETE_TOPICS: _route(delete_topics, admin, 1, 6),
        ApiKey.CREATE_PARTITIONS: _route(create_partitions, admin, 0, 3),
        ApiKey.DESCRIBE_CONFIGS: _route(describe_configs, admin, 1, 4),
        ApiKey.ALTER_CONFIGS: _route(alter_configs, admin, 0, 2),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _route(incremental_alter_configs, admin, 0, 1),
        ApiKey.DESCRIBE_CLUSTER: _route(describe_cluster, admin, 0, 2),
        ApiKey.DELETE_RECORDS: _route(delete_records, replicas, 0, 2),
        ApiKey.ELECT_LEADERS: _route(elect_leaders, admin, 0, 2),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: _route(alter_partition_reassignments, admin, 0, 1),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: _route(list_partition_reassignments, admin, 0, 0),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: _route(describe_topic_partitions, admin, 0, 0),
    }
    routes[ApiKey.API_VERSIONS] = _route(api_versions, routes, 0, 4)
    return routes


def _route(module: Any, served: object, min_version: int, max_version: int) -> Route:
    """A route to a module's `handle`, which is given what it serves from, and its `error_response`."""
    return Route(partial(module.handle, served), min_version, max_version, module.error_response)
