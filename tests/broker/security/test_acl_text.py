"""ACLs as text: what is read, what is shown, and what is said about a slip."""

from __future__ import annotations

import re

import pytest

from purgatorio.broker.metadata.acls import AclBinding, AclOperation, PatternType, PermissionType, ResourceType
from purgatorio.broker.security.acl_text import AclTextError, acl_text, parse_acl, parse_acls


def test_an_acl_for_each_operation_is_read() -> None:
    assert parse_acl("allow User:alice read,WRITE topic orders") == [
        AclBinding(
            ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", operation, PermissionType.ALLOW
        )
        for operation in (AclOperation.READ, AclOperation.WRITE)
    ]
    assert len(parse_acls(["deny User:* ALL cluster", ["allow", "User:a b", "READ", "GROUP", "*"]])) == 2


@pytest.mark.parametrize(
    "text",
    [
        "allow User:alice READ topic orders",
        "deny User:* ALL topic * from 10.0.0.1",
        "allow User:alice READ group billing-*",
        "allow User:alice IDEMPOTENT_WRITE cluster",
        "allow 'User:CN=Zoë, O=x' WRITE transactional-id 'a b' from ::1",
        "allow User:alice ALTER user bob",
    ],
)
def test_what_is_shown_is_what_was_read(text: str) -> None:
    (acl,) = parse_acl(text)
    assert acl_text(acl) == text


def test_names_that_end_in_a_star_are_prefixes_and_the_star_is_every_name() -> None:
    (prefix,) = parse_acl("allow User:a READ topic ab*")
    (every,) = parse_acl("allow User:a READ topic *")
    assert (prefix.resource_name, prefix.pattern_type) == ("ab", PatternType.PREFIXED)
    assert (every.resource_name, every.pattern_type) == ("*", PatternType.LITERAL)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is no ACL like"),
        ("allow User:alice READ topic", "the name of the topic is missing"),
        ("allow User:alice READ topic ''", "the name of the topic is missing"),
        ("allow User:alice READ topic a b", "is no ACL like"),
        ("allow User:alice REED topic a", "did you mean read?"),
        ("allow User:alice ANY topic a", "is no operation"),
        ("allow User:alice READ broker 1", "there are topic, group"),
        ("permit User:alice READ topic a", "is no permission"),
        ("allow alice READ topic a", "is no principal"),
        ("allow User: READ topic a", "is no principal"),
        ("allow User:alice ALTER cluster mine", "the cluster has no name"),
        ("allow 'User:alice READ topic a", "No closing quotation"),
    ],
)
def test_a_slip_is_named(text: str, told: str) -> None:
    with pytest.raises(AclTextError, match=re.escape(told)):
        parse_acl(text)
