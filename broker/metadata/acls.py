"""Access control lists as the cluster's metadata holds them (KIP-11, KIP-290). Codes are those of the protocol.

`broker.security` decides what they allow.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from purgatorio.late import dataclass

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


@dataclass(frozen=True, slots=True)
class AclFilter:
    """A filter; None and ANY match all.

    Attributes:
        pattern_type: MATCH matches the patterns that a resource of this name matches: its own name, the wildcard and
            its prefixes.
        operation: ALL matches only ACLs on ALL.
    """

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: PermissionType = PermissionType.ANY

    @property
    def only(self) -> AclBinding | None:
        """The one ACL that it can match; None if it can match several."""
        name, principal, host = self.resource_name, self.principal, self.host
        is_one = (
            self.resource_type > ResourceType.ANY
            and self.pattern_type > PatternType.MATCH
            and self.operation > AclOperation.ANY
            and self.permission > PermissionType.ANY
        )
        if not is_one or name is None or principal is None or host is None:
            return None
        return AclBinding(self.resource_type, name, self.pattern_type, principal, host, self.operation, self.permission)

    def find(self, acls: Mapping[AclBinding, None]) -> Iterable[AclBinding]:
        """Return the ACLs that it matches, oldest first."""
        only = self.only
        if only is not None:
            return (only,) if only in acls else ()
        return [acl for acl in acls if self.matches(acl)]

    def matches(self, acl: AclBinding) -> bool:
        """Return whether an ACL meets all conditions of the filter."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and (self.principal is None or self.principal == acl.principal)
            and (self.host is None or self.host == acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (PermissionType.ANY, acl.permission)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: AclBinding) -> bool:
        name, pattern = self.resource_name, self.pattern_type
        if pattern not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if name is None or name == acl.resource_name:
            return True
        if pattern != PatternType.MATCH:
            return False
        if acl.pattern_type == PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name == WILDCARD
