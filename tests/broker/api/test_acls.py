"""Tests of the handlers of DescribeAcls, CreateAcls and DeleteAcls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from purgatorio.broker.api import create_acls, delete_acls, describe_acls
from purgatorio.broker.metadata.controller import acls as limits
from purgatorio.broker.time import long_work
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from purgatorio.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from purgatorio.protocol.messages.describe_acls import DescribeAclsRequest

ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
TOPIC, GROUP, CLUSTER = 2, 3, 4
ALL, READ, WRITE = 2, 3, 4
DENY, ALLOW = 2, 3
FINE: dict[str, Any] = {
    "resource_type": TOPIC,
    "resource_name": "orders",
    "resource_pattern_type": LITERAL,
    "principal": "User:alice",
    "host": "*",
    "operation": READ,
    "permission_type": ALLOW,
}


@pytest.fixture
def secured(cluster: Any) -> Any:
    """A cluster with an authorizer."""
    cluster.admin = replace(cluster.admin, has_authorizer=True)
    return cluster


def create(cluster: Any, *acls: dict[str, Any], version: int = 3) -> list[int]:
    request = CreateAclsRequest(creations=[AclCreation(**{**FINE, **acl}) for acl in acls])
    return [each.error_code for each in cluster.ask(create_acls, version, request).results]


def filter_of(**fields: Any) -> dict[str, Any]:
    anything = {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }
    return anything | fields


def found(cluster: Any, version: int = 3, **fields: Any) -> list[tuple[int, str, int, str, str, int, int]]:
    answer = cluster.ask(describe_acls, version, DescribeAclsRequest(**filter_of(**fields)))
    assert answer.error_code == ErrorCode.NONE
    return [
        (
            each.resource_type,
            each.resource_name,
            each.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for each in answer.resources
        for acl in each.acls
    ]


def names(rows: list[tuple[int, str, int, str, str, int, int]]) -> list[str]:
    return [row[1] for row in rows]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_acl_is_created_listed_and_removed_in_each_version(secured: Any, version: int) -> None:
    assert create(secured, {}, {}, version=version) == [0, 0]
    assert create(secured, {}, version=version) == [0]
    row = (TOPIC, "orders", LITERAL, "User:alice", "*", READ, ALLOW)
    assert found(secured, version) == [row]
    request = DeleteAclsRequest(filters=[DeleteAclsFilter(**filter_of(resource_name_filter="orders"))] * 2)
    first, second = secured.ask(delete_acls, version, request).filter_results
    assert [(each.resource_name, each.operation) for each in first.matching_acls] == [("orders", READ)]
    assert second.error_code == ErrorCode.NONE
    assert second.matching_acls == []
    assert found(secured, version) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type": 0},
        {"resource_type": 1},
        {"resource_type": 99},
        {"operation": 0},
        {"operation": 1},
        {"permission_type": 0},
        {"permission_type": 1},
        {"resource_pattern_type": MATCH},
        {"resource_pattern_type": ANY},
        {"resource_name": ""},
        {"resource_type": CLUSTER, "resource_name": "orders"},
        {"principal": "alice"},
        {"principal": ":alice"},
        {"host": ""},
        {"principal": "User:" + "x" * 2000},
    ],
    ids=str,
)
def test_an_acl_that_there_cannot_be_is_refused_and_the_others_are_created(secured: Any, wrong: Any) -> None:
    assert create(secured, wrong, {}) == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert names(found(secured)) == ["orders"]


def test_principals_of_odd_characters_are_kept_as_they_are(secured: Any) -> None:
    odd = 'User:CN=Zoë, O="a:b"\\,\n*,C=DE'
    assert create(secured, {"principal": odd}) == [0]
    assert found(secured, principal_filter=odd)[0][3] == odd


def test_filters_match_as_kafkas_do(secured: Any) -> None:
    create(
        secured,
        {},
        {"resource_name": "*"},
        {"resource_name": "ord", "resource_pattern_type": PREFIXED},
        {"resource_name": "orders", "resource_pattern_type": PREFIXED, "operation": ALL},
        {"resource_name": "other", "principal": "User:bob", "permission_type": DENY, "host": "10.0.0.1"},
        {"resource_type": GROUP, "resource_name": "orders"},
    )
    assert len(found(secured)) == 6
    assert names(found(secured, resource_type_filter=GROUP)) == ["orders"]
    exact = {"resource_type_filter": TOPIC, "resource_name_filter": "orders"}
    assert [row[2] for row in found(secured, **exact, pattern_type_filter=LITERAL)] == [LITERAL]
    assert [row[2] for row in found(secured, **exact)] == [LITERAL, PREFIXED]
    matched = found(secured, **exact, pattern_type_filter=MATCH)
    assert sorted(names(matched)) == ["*", "ord", "orders", "orders"]
    assert names(found(secured, principal_filter="User:bob")) == ["other"]
    assert names(found(secured, host_filter="10.0.0.1")) == ["other"]
    assert names(found(secured, permission_type=DENY)) == ["other"]
    assert [row[5] for row in found(secured, operation=ALL)] == [ALL]


def test_a_filter_with_an_unknown_code_is_refused_and_the_others_act(secured: Any) -> None:
    create(secured, {})
    for code in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        for value in (0, 77):
            answer = secured.ask(describe_acls, 3, DescribeAclsRequest(**filter_of(**{code: value})))
            assert answer.error_code == ErrorCode.INVALID_REQUEST
    filters = [DeleteAclsFilter(**filter_of(operation=0)), DeleteAclsFilter(**filter_of())]
    wrong, right = secured.ask(delete_acls, 3, DeleteAclsRequest(filters=filters)).filter_results
    assert wrong.error_code == ErrorCode.INVALID_REQUEST
    assert len(right.matching_acls) == 1


def test_without_an_authorizer_each_of_them_says_so(cluster: Any) -> None:
    assert create(cluster, {}) == [ErrorCode.SECURITY_DISABLED]
    assert cluster.ask(describe_acls, 3, DescribeAclsRequest(**filter_of())).error_code == ErrorCode.SECURITY_DISABLED
    request = DeleteAclsRequest(filters=[DeleteAclsFilter(**filter_of())])
    assert cluster.ask(delete_acls, 3, request).filter_results[0].error_code == ErrorCode.SECURITY_DISABLED
    assert not cluster.image.acls


def test_their_number_and_the_work_of_a_request_are_bounded(secured: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_ACLS", 3)
    some = [{"resource_name": f"t{number}"} for number in range(4)]
    assert create(secured, *some) == [0, 0, 0, ErrorCode.INVALID_REQUEST]
    monkeypatch.setattr(limits, "MAX_REMOVED", 2)
    monkeypatch.setattr(limits, "MAX_LOOKED_AT", 6)  # two filters look at three ACLs
    exact = filter_of(
        resource_type_filter=TOPIC,
        resource_name_filter="t0",
        pattern_type_filter=LITERAL,
        principal_filter="User:alice",
        host_filter="*",
        operation=READ,
        permission_type=ALLOW,
    )
    filters = [filter_of(), filter_of(resource_name_filter="no"), filter_of(resource_name_filter="t1"), exact]
    request = DeleteAclsRequest(filters=[DeleteAclsFilter(**each) for each in filters])
    codes = [each.error_code for each in secured.ask(delete_acls, 3, request).filter_results]
    assert codes == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST, 0]
    assert names(found(secured)) == ["t1", "t2"]


def test_each_fails_as_a_whole_with_one_code() -> None:
    creations = CreateAclsRequest(creations=[AclCreation(**FINE)])
    assert create_acls.API.failed(creations, ErrorCode.NOT_CONTROLLER).results[0].error_code == 41
    filters = DeleteAclsRequest(filters=[DeleteAclsFilter(**filter_of())])
    assert delete_acls.API.failed(filters, ErrorCode.NOT_CONTROLLER).filter_results[0].error_code == 41
    request = DescribeAclsRequest(**filter_of())
    assert describe_acls.API.failed(request, ErrorCode.NOT_CONTROLLER).error_code == 41


def test_a_long_list_is_made_in_steps_from_the_acls_of_its_beginning(
    secured: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20,000 ACLs held the loop 110 ms."""
    monkeypatch.setattr(long_work, "SLICE", 4)
    create(secured, *({"resource_name": f"topic-{number}"} for number in range(5)))
    reply = secured.send(describe_acls, 3, DescribeAclsRequest(**filter_of()))
    secured.turns.run()
    assert reply.responses == []
    create(secured, {"resource_name": "later"})
    assert len(list(secured.admin.listings.steps())) == 2
    (response,) = reply.responses
    assert [each.resource_name for each in response.resources] == [f"topic-{number}" for number in range(5)]
