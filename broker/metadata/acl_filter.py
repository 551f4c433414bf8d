"""Which access control lists a filter of DescribeAcls or DeleteAcls matches (KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from purgatorio.broker.metadata.acls import (
    WILDCARD,
    AclBinding,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from purgatorio.late import dataclass


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
