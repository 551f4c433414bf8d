"""Access control lists as the cluster's metadata holds them (KIP-11, KIP-290). Codes are those of the protocol.

`broker.security` decides what they allow.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

WILDCARD: Final = "*"
"""As a literal resource name: every resource of the type. As a host: every host."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""
ANY_USER: Final = "User:*"


class ResourceType(enum.IntEnum):
    """The type of the resource that an ACL protects. UNKNOWN and ANY are for filters and errors alone."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(enum.IntEnum):
    """How an ACL's resource name matches. UNKNOWN, ANY and MATCH are for filters and errors alone."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(enum.IntEnum):
    """The operation that an ACL allows or denies. UNKNOWN and ANY are for filters and errors alone."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PermissionType(enum.IntEnum):
    """Whether an ACL allows or denies. UNKNOWN and ANY are for filters and errors alone."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclBinding(NamedTuple):
    """One ACL: what a principal may, or may not, do with which resources, from which host.

    Attributes:
        principal: as `User:alice`, or ANY_USER.
        host: an IP address, or WILDCARD.
    """

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: PermissionType
