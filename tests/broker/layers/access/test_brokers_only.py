"""What only brokers do is refused to clients, whatever version of the request they send."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api.routes import APIS
from purgatorio.broker.layers.access.brokers_only import brokers_only, brokers_only_without_acls
from purgatorio.broker.routing.request import BROKER, USER, Principal, RequestContext, Route, Session
from purgatorio.protocol import api
from purgatorio.protocol.api_key import SHARE_STATE_APIS, ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from purgatorio.protocol.messages.fetch import FetchRequest, ReplicaState
from purgatorio.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.layers.access.guarding import Reply

HANDLERS = {api.key: api for api in APIS}
CLIENT = Principal(USER, "alice")
PEER = Principal(BROKER, "2")
REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def reaches_handler(
    key: ApiKey, version: int, request: Any, principal: Principal = CLIENT, *, layer: Any = brokers_only
) -> tuple[bool, Any]:
    """Return whether a request reaches the API's handler, and the answer that it gets otherwise."""
    worked: list[Any] = []
    api = HANDLERS[key]
    route = Route(lambda ctx, request, reply: worked.append(request), api.min_version, api.max_version, api.failed)
    session = Session(connection_id="1", listener="SASL", host="127.0.0.1", peer="127.0.0.1:5", principal=principal)
    reply = Reply(key, version)
    layer(key, route)(RequestContext(session, "till", key, version, 0), request, reply)
    assert bool(worked) == (reply.ended == "waiting")
    return bool(worked), reply.answer


def fetch(version: int, replica_id: int) -> FetchRequest:
    """A Fetch request as its codec returns it: the field that the version does not have is at its default."""
    if version >= 15:
        return FetchRequest(replica_state=ReplicaState(replica_id=replica_id, replica_epoch=1), topics=[])
    return FetchRequest(replica_id=replica_id, topics=[])


FETCH_VERSIONS = range(HANDLERS[ApiKey.FETCH].min_version, HANDLERS[ApiKey.FETCH].max_version + 1)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@pytest.mark.parametrize("replica_id", [0, 2])
def test_a_client_that_poses_as_a_follower_is_refused_in_each_version(version: int, replica_id: int) -> None:
    """Versions up to 14 have the replica's id in another field."""
    reached, answer = reaches_handler(ApiKey.FETCH, version, fetch(version, replica_id))
    assert not reached
    if version >= 7:
        assert answer.error_code == REFUSED


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_consumers_and_followers_fetch(version: int) -> None:
    assert reaches_handler(ApiKey.FETCH, version, fetch(version, -1))[0]
    assert reaches_handler(ApiKey.FETCH, version, fetch(version, 2), PEER)[0]


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("layer", [brokers_only, brokers_only_without_acls])
def test_clients_add_partitions_by_each_version_that_acls_allow(version: int, layer: Any) -> None:
    """platformatic/kafka sends version 5; Kafka has CLUSTER_ACTION decide from version 4 on, which the guard asks."""
    assert reaches_handler(ApiKey.ADD_PARTITIONS_TO_TXN, version, AddPartitionsToTxnRequest(), layer=layer)[0]


def markers() -> WriteTxnMarkersRequest:
    topics = [WritableTxnMarkerTopic(name="orders", partition_indexes=[0])]
    return WriteTxnMarkersRequest(markers=[WritableTxnMarker(producer_id=7, transaction_result=True, topics=topics)])


@pytest.mark.parametrize("version", [1, 2])
def test_a_client_writes_no_markers_unless_acls_can_allow_it(version: int) -> None:
    """A forged commit showed the records of an open transaction; a forged coordinator epoch hung it for good."""
    key = ApiKey.WRITE_TXN_MARKERS
    reached, answer = reaches_handler(key, version, markers(), layer=brokers_only_without_acls)
    assert not reached
    assert answer.markers[0].topics[0].partitions[0].error_code == REFUSED
    assert reaches_handler(key, version, markers(), PEER, layer=brokers_only_without_acls)[0]
    assert reaches_handler(key, version, markers())[0], "the guard of ACLs decides"


@pytest.mark.parametrize("key", sorted(SHARE_STATE_APIS))
def test_a_client_does_not_touch_the_state_of_share_groups_unless_acls_can_allow_it(key: ApiKey) -> None:
    """A forged state took records from the members of a share group."""
    request = api.APIS[key].request()
    assert not reaches_handler(key, 0, request, layer=brokers_only_without_acls)[0]
    assert reaches_handler(key, 0, request, PEER, layer=brokers_only_without_acls)[0]
    assert reaches_handler(key, 0, request)[0], "the guard of ACLs decides"


def test_without_acls_the_rest_is_refused_as_with_them() -> None:
    assert not reaches_handler(ApiKey.FETCH, 12, fetch(12, 2), layer=brokers_only_without_acls)[0]
    assert reaches_handler(ApiKey.END_TXN, 4, None, layer=brokers_only_without_acls)[0]
