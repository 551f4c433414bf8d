"""What consumers see of a fetch of which topics are refused, in fetch sessions and without them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from purgatorio.broker.metadata.acls import AclOperation, ResourceType
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages import fetch
from tests.broker.layers.access.guarding import GuardedBroker, allow, fetches, id_of

TOPIC, READ = ResourceType.TOPIC, AclOperation.READ
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_fetch_with_a_refused_topic_waits_for_the_others_without_a_session() -> None:
    broker = GuardedBroker([allow(READ, TOPIC, "orders")])
    answer = broker.ask(ApiKey.FETCH, 16, fetches("orders", "secret")).answer
    assert [(each.topic_id, each.partitions[0].error_code) for each in answer.responses] == [(id_of("secret"), DENIED)]
    (worked,) = broker.worked
    assert (worked.session_epoch, worked.max_wait_ms) == (-1, 500)
    broker.ask(ApiKey.FETCH, 16, fetches("orders"))
    assert (broker.worked[-1].session_epoch, broker.worked[-1].max_wait_ms) == (0, 500)


def session_of(*topics: str) -> Any:
    held = [SimpleNamespace(tp=(name, 0), topic_id=id_of(name)) for name in topics]
    return SimpleNamespace(fetches=held, readable_by=None)


def test_a_session_goes_on_while_its_client_may_read_all_its_topics() -> None:
    broker = GuardedBroker([allow(READ, TOPIC, "orders"), allow(READ, TOPIC, "secret")])
    broker.sessions[7] = session_of("orders", "secret")

    def goes_on(*topics: str, **more: Any) -> bool:
        answer = broker.ask(ApiKey.FETCH, 16, fetches(*topics, session_id=7, epoch=3, **more)).answer
        assert answer.error_code in (0, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return bool(answer.error_code == 0)

    assert goes_on()
    assert broker.sessions[7].readable_by is not None
    assert goes_on("orders")
    assert goes_on(ids=(b"?" * 16,))
    assert broker.sessions[7].readable_by is None
    broker.acls = {allow(READ, TOPIC, "orders"): None}
    assert not goes_on()
    broker.sessions[7] = session_of("orders")
    assert goes_on()
    assert not goes_on("secret")
    broker.sessions[7].fetches += session_of("secret").fetches
    assert goes_on(), "what it has named since then was checked when it named it"
    broker.acls = dict(broker.acls)
    assert not goes_on()
    del broker.sessions[7]
    assert goes_on(), "the handler says that there is no such session"


def test_another_clients_session_is_not_a_way_to_its_topics() -> None:
    broker = GuardedBroker([allow(READ, TOPIC, "orders")])
    broker.sessions[7] = session_of("orders")
    mine = broker.ask(ApiKey.FETCH, 16, fetches(session_id=7, epoch=3))
    assert mine.answer.error_code == 0
    theirs = broker.ask(ApiKey.FETCH, 16, fetches(session_id=7, epoch=4), principal="mallory")
    assert theirs.answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(broker.worked) == 1


def test_a_client_that_poses_as_a_follower_gets_nothing() -> None:
    """CVE-2018-1288: a fetch of a follower passed with the permissions of a consumer."""
    broker = GuardedBroker([allow(READ, TOPIC, "orders")])
    state = fetch.ReplicaState(replica_id=2, replica_epoch=7)
    request = fetches("orders")
    request.replica_state = state
    answer = broker.ask(ApiKey.FETCH, 16, request).answer
    assert answer.responses[0].partitions[0].error_code == DENIED
    request.session_id, request.session_epoch = 7, 3
    assert broker.ask(ApiKey.FETCH, 16, request).answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not broker.worked
