"""Decisions about access control lists: which may be added, and which a request removes (KIP-140)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from purgatorio.broker.metadata.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from purgatorio.broker.metadata.controller.result import DecisionRefused
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.protocol.errors import ErrorCode

MAX_ACLS: Final = 100_000
"""The most ACLs of a cluster; each takes some 300 bytes in each broker."""
MAX_TEXT_CHARS: Final = 1_024
"""The longest name, principal or host of an ACL. Distinguished names of certificates have some hundred characters."""
MAX_REMOVED: Final = 10_000
"""The most ACLs that one request removes, as in Kafka."""
MAX_LOOKED_AT: Final = 50_000
"""The most ACLs that the filters of one request look at together, which takes some 70 ms; the first may look at all."""


class AclResult(NamedTuple):
    """The outcome for one ACL that was to be added; NONE if there is one like it already."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class FilterResult(NamedTuple):
    """The outcome for one filter: the ACLs that it removed."""

    removed: Sequence[AclBinding] = ()
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def create_acls(image: ClusterImage, acls: Sequence[AclBinding]) -> tuple[ClusterImage, list[AclResult]]:
    """Add ACLs, each independently of the others."""
    added: dict[AclBinding, None] = {}
    results = []
    for acl in acls:
        try:
            _check(acl)
            if acl not in image.acls and acl not in added:
                if len(image.acls) + len(added) >= MAX_ACLS:
                    raise DecisionRefused(ErrorCode.INVALID_REQUEST, f"A cluster has at most {MAX_ACLS} ACLs.")
                added[acl] = None
        except DecisionRefused as refusal:
            results.append(AclResult(refusal.error, refusal.message))
        else:
            results.append(AclResult())
    return (image.with_acls({**image.acls, **added}) if added else image), results


def _check(acl: AclBinding) -> None:
    """Raise DecisionRefused with INVALID_REQUEST if there cannot be such an ACL."""
    problem = _problem(acl)
    if problem:
        raise DecisionRefused(ErrorCode.INVALID_REQUEST, problem)


def _problem(acl: AclBinding) -> str:
    if acl.resource_type <= ResourceType.ANY or acl.operation <= AclOperation.ANY:
        return "An ACL needs a resource type and an operation: UNKNOWN and ANY are for filters."
    if acl.permission <= PermissionType.ANY or acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return "An ACL allows or denies, for a literal name or a prefix: other codes are for filters."
    if not acl.resource_name:
        return "The name of the resource is empty."
    if acl.resource_type is ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only name of a resource of type CLUSTER is '{CLUSTER_NAME}'."
    if not acl.principal.partition(":")[0] or ":" not in acl.principal:
        return "A principal has a type and a name with a colon between, such as 'User:alice'."
    if not acl.host:
        return "The host is empty."
    if max(map(len, (acl.resource_name, acl.principal, acl.host))) > MAX_TEXT_CHARS:
        return f"Names, principals and hosts have at most {MAX_TEXT_CHARS} characters."
    return ""


def delete_acls(image: ClusterImage, filters: Sequence[AclFilter | None]) -> tuple[ClusterImage, list[FilterResult]]:
    """Remove the ACLs that the filters match; one that several match is removed by the first.

    Args:
        filters: None stands for one that is refused with INVALID_REQUEST.
    """
    left = dict(image.acls)
    results = []
    looked_at = removed = 0
    for each in filters:
        if each is None:
            results.append(FilterResult((), ErrorCode.INVALID_REQUEST, "The filter has an unknown code."))
            continue
        is_wide = each.only is None
        if is_wide and looked_at and looked_at + len(left) > MAX_LOOKED_AT:
            message = f"The filters of a request look at {MAX_LOOKED_AT} ACLs together; send fewer in one request."
            results.append(FilterResult((), ErrorCode.INVALID_REQUEST, message))
            continue
        looked_at += is_wide * len(left)
        found = list(each.find(left))
        if removed + len(found) > MAX_REMOVED:
            message = f"A request removes at most {MAX_REMOVED} ACLs."
            results.append(FilterResult((), ErrorCode.INVALID_REQUEST, message))
            continue
        removed += len(found)
        for acl in found:
            del left[acl]
        results.append(FilterResult(found))
    return (image.with_acls(left) if removed else image), results
