"""JoinGroup: its answers in every version, with those that wait for other members."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import join_group
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.broker.api.group_requests import Coordinator, travel


def request(group_id: str = "billing", **fields: Any) -> JoinGroupRequest:
    """Return the join of a consumer."""
    fields = {
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=b"topics")],
        **fields,
    }
    if fields["rebalance_timeout_ms"] is None:
        del fields["rebalance_timeout_ms"]
    return JoinGroupRequest(group_id=group_id, **fields)


@pytest.mark.parametrize("version", range(10))
def test_a_first_member_gets_its_generation(version: int) -> None:
    broker = Coordinator()
    answer = broker.ask(join_group, version, request(rebalance_timeout_ms=None) if version == 0 else request())
    if version >= 4:
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert answer.protocol_name == (None if version >= 7 else "")
        answer = broker.ask(join_group, version, request(member_id=answer.member_id))
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
    assert answer.leader == answer.member_id
    assert answer.member_id.startswith("test-")
    assert [(each.member_id, bytes(each.metadata)) for each in answer.members] == [(answer.member_id, b"topics")]


def test_in_version_0_the_session_timeout_is_also_the_rebalance_timeout() -> None:
    broker = Coordinator()
    first = broker.ask(join_group, 0, request(rebalance_timeout_ms=None))
    waiting = broker.post(join_group, 0, request(rebalance_timeout_ms=None))
    broker.advance_ms(9_999)
    assert waiting.said == []
    broker.advance_ms(2)
    assert first.member_id not in [each.member_id for each in travel(0, waiting.only).members]


@pytest.mark.parametrize("version", range(10))
def test_a_refused_join_has_the_error_and_the_members_own_id(version: int) -> None:
    answer = Coordinator().ask(join_group, version, request(member_id="stranger", rebalance_timeout_ms=-1))
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "stranger")
    assert (answer.generation_id, answer.leader) == (-1, "")
    assert answer.protocol_name == (None if version >= 7 else "")


def test_a_broker_that_is_not_the_coordinator_says_so() -> None:
    broker = Coordinator()
    broker.may_lead = False
    assert broker.ask(join_group, 9, request()).error_code == ErrorCode.NOT_COORDINATOR
