"""The rules about clients that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.admin.operations.reading.why.refusals import CONNECTIONS, ERRORS
from purgatorio.broker.server.limits import Refusal
from purgatorio.protocol.errors import ErrorCode
from tests.admin.operations.reading.why.documents import error, facts, request, said


def denied(**more: Any) -> dict[str, Any]:
    """A refusal for lack of a permission."""
    row = {"at_ms": 99_000, "api": "FIND_COORDINATOR", "client": "reader", "principal": "User:alice"}
    return {**row, "operation": "DESCRIBE", "resource": "GROUP", "name": "billing", **more}


def test_a_missing_permission_is_named_with_the_acl_that_gives_it() -> None:
    assert said(facts(denied=[denied(), denied(at_ms=99_500)])) == [
        "reader is refused (FindCoordinator): User:alice may not DESCRIBE group billing; add the ACL "
        "`allow User:alice READ group billing`"
    ]


def test_permissions_on_the_cluster_and_on_transactional_ids_are_named_as_acls_name_them() -> None:
    of_cluster = denied(api="INIT_PRODUCER_ID", operation="IDEMPOTENT_WRITE", resource="CLUSTER", name="kafka-cluster")
    of_id = denied(api="INIT_PRODUCER_ID", operation="WRITE", resource="TRANSACTIONAL_ID", name="tx")
    assert said(facts(denied=[of_cluster, of_id])) == [
        "reader is refused (InitProducerId): User:alice may not IDEMPOTENT_WRITE cluster; add the ACL "
        "`allow User:alice IDEMPOTENT_WRITE cluster`",
        "reader is refused (InitProducerId): User:alice may not WRITE transactional-id tx; add the ACL "
        "`allow User:alice WRITE transactional-id tx`",
    ]


def test_a_client_that_did_not_log_in_is_named_once() -> None:
    row = {"at_ms": 1, "reason": "not_authenticated", "detail": "Metadata before authentication", "client": "reader"}
    assert said(facts(refused_connections=[row, row])) == [
        "reader sent a request before it logged in (Metadata before authentication): set security.protocol and the "
        "sasl settings"
    ]


def test_an_ordinary_end_of_a_connection_is_no_cause() -> None:
    row = {"at_ms": 1, "reason": "slow_reader", "detail": "", "client": "reader"}
    assert said(facts(refused_connections=[row])) == []


def test_an_error_that_does_not_pass_has_its_cause() -> None:
    row = error("billing", "Produce", "MESSAGE_TOO_LARGE", topics=["orders"])
    assert said(facts(errors=[row])) == [
        "Produce of billing for orders is refused, MESSAGE_TOO_LARGE: a batch is larger than max.message.bytes; send "
        "smaller records, or raise it for the topic"
    ]


def test_an_error_that_was_followed_by_success_is_over() -> None:
    row = error("billing", "Produce", "MESSAGE_TOO_LARGE")
    assert said(facts(errors=[row], requests=[request("billing", "Produce", at_ms=row["last_ms"])])) == []
    assert said(facts(errors=[row], requests=[request("other", "Produce", at_ms=row["last_ms"])])) != []


def test_an_error_that_clients_get_over_is_no_cause() -> None:
    assert said(facts(errors=[error("c", "JoinGroup", "MEMBER_ID_REQUIRED")])) == []


def test_a_fault_rule_that_answers_is_named() -> None:
    fired = {
        "at_ms": 99_000,
        "rule": 3,
        "broker": 1,
        "api": "Produce",
        "client": "c",
        "partitions": [],
        "action": "NOT_LEADER_OR_FOLLOWER",
    }
    row = error("c", "Produce", "NOT_LEADER_OR_FOLLOWER")
    assert said(facts(errors=[row], fired=[fired])) == [
        "Produce of c is answered NOT_LEADER_OR_FOLLOWER by fault rule 3; remove the rule, or give it a count"
    ]
    too_large = error("c", "Produce", "MESSAGE_TOO_LARGE")
    assert "max.message.bytes" in said(facts(errors=[too_large], fired=[fired]))[0], "that error is not the rule's"
    rules = [{**fired, "action": "MESSAGE_TOO_LARGE"}, {**fired, "action": "answered by a function"}]
    for rule in rules:
        (only,) = said(facts(errors=[too_large], fired=[rule]))
        assert "by fault rule 3" in only


@pytest.mark.parametrize("name", ERRORS)
def test_the_errors_exist(name: str) -> None:
    assert name in ErrorCode.__members__


@pytest.mark.parametrize("reason", CONNECTIONS)
def test_the_reasons_exist(reason: str) -> None:
    assert reason in set(Refusal)
