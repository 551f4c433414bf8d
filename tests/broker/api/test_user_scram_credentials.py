"""Tests of the DescribeUserScramCredentials and AlterUserScramCredentials handlers."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import alter_user_scram_credentials, describe_user_scram_credentials
from purgatorio.broker.metadata.clients import ScramMechanism, ScramUser
from purgatorio.broker.security import scram_users
from purgatorio.broker.security.scram import new_credential, salted
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from purgatorio.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName

SALT = b"salt\0with\0NULs"


def upsertion(name: str, mechanism: int = 1, iterations: int = 4096, salt: bytes = SALT) -> ScramCredentialUpsertion:
    password = salted(ScramMechanism.SCRAM_SHA_256, "secret", SALT, 4096)
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=password
    )


def deletion(name: str, mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(cluster: Any, *edits: Any) -> dict[str, int]:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in edits if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in edits if isinstance(each, ScramCredentialUpsertion)],
    )
    results = cluster.ask(alter_user_scram_credentials, 0, request).results
    assert all((result.error_message is None) == (result.error_code == 0) for result in results)
    assert len({result.user for result in results}) == len(results)
    return {result.user: result.error_code for result in results}


def describe(cluster: Any, *names: str) -> dict[str, int | list[tuple[int, int]]]:
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names] or None)
    response = cluster.ask(describe_user_scram_credentials, 0, request)
    return {
        result.user: result.error_code or [(info.mechanism, info.iterations) for info in result.credential_infos]
        for result in response.results
    }


def test_a_credential_is_set_replaced_and_deleted(cluster: Any) -> None:
    """The broker keeps what the client has salted, and tells mechanism and iterations only."""
    assert describe(cluster) == {}
    assert alter(cluster, upsertion("alice")) == {"alice": 0}
    user = ScramUser("alice", ScramMechanism.SCRAM_SHA_256)
    kept = cluster.image.scram_credentials[user]
    assert kept == new_credential(ScramMechanism.SCRAM_SHA_256, "secret", SALT)
    assert alter(cluster, upsertion("alice", 2), upsertion("bob", 1, 16_384)) == {"alice": 0, "bob": 0}
    assert describe(cluster) == {"alice": [(1, 4096), (2, 4096)], "bob": [(1, 16_384)]}
    assert alter(cluster, upsertion("alice", 1, 8_192), deletion("bob")) == {"alice": 0, "bob": 0}
    assert describe(cluster, "alice") == {"alice": [(1, 8_192), (2, 4096)]}
    assert describe(cluster) == {"alice": [(1, 8_192), (2, 4096)]}


def test_users_that_are_not_there_or_named_twice(cluster: Any) -> None:
    """Each has its own error; the others are answered."""
    alter(cluster, upsertion("alice"))
    assert describe(cluster, "alice", "mallory", "bob", "bob") == {
        "alice": [(1, 4096)],
        "mallory": ErrorCode.RESOURCE_NOT_FOUND,
        "bob": ErrorCode.DUPLICATE_RESOURCE,
    }


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("x" * 1_001), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("bob", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion("bob", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (deletion("alice", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion("bob", 1, 4_095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("bob", 1, 16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("bob", 1, 4_096, b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("bob", 1, 4_096, bytes(1_025)), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (deletion("alice", 2), ErrorCode.RESOURCE_NOT_FOUND),
        (deletion("bob"), ErrorCode.RESOURCE_NOT_FOUND),
        (deletion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_refused_edits(cluster: Any, edit: Any, expected: ErrorCode) -> None:
    """They change nothing, and do not keep others of the request from being made."""
    alter(cluster, upsertion("alice"))
    assert alter(cluster, edit, upsertion("carol")) == {edit.name: expected, "carol": 0}
    assert describe(cluster) == {"alice": [(1, 4096)], "carol": [(1, 4096)]}


def test_a_user_may_be_named_once(cluster: Any) -> None:
    """Also with two mechanisms, or with a deletion beside; none of them is made."""
    alter(cluster, upsertion("alice"))
    assert alter(cluster, deletion("alice"), upsertion("alice", 2)) == {"alice": ErrorCode.DUPLICATE_RESOURCE}
    assert alter(cluster, upsertion("bob"), upsertion("bob", 2)) == {"bob": ErrorCode.DUPLICATE_RESOURCE}
    assert describe(cluster) == {"alice": [(1, 4096)]}


def test_credentials_have_a_limit(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are there can be replaced beyond it."""
    monkeypatch.setattr(scram_users, "MAX_CREDENTIALS", 1)
    assert alter(cluster, upsertion("alice"), upsertion("bob")) == {"alice": 0, "bob": ErrorCode.POLICY_VIOLATION}
    assert alter(cluster, upsertion("alice", 1, 8_192)) == {"alice": 0}
