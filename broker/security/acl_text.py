"""ACLs as people write them, in one line: ``allow User:alice READ,WRITE topic orders``.

::

    allow|deny PRINCIPAL OPERATION[,OPERATION…] RESOURCE [NAME] [from HOST]

The resource is topic, group, transactional-id, user or cluster; only the cluster has no name. A name that ends in ``*``
is a prefix, and ``*`` alone is every name. Without ``from`` the host is any.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final, TypeVar

from purgatorio.broker.metadata.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)

EXAMPLE: Final = "allow User:alice READ,WRITE topic orders"
_FROM: Final = "from"
_Code = TypeVar("_Code", bound=IntEnum)


class AclTextError(ValueError):
    """The text is no ACL; the message says why."""


def parse_acl(text: str | Sequence[str]) -> list[AclBinding]:
    """Return the ACLs of a text, one for each operation.

    Args:
        text: the text, in which quotes hold a name with spaces together; or its words.

    Raises:
        AclTextError: it is none.
    """
    try:
        words = shlex.split(text) if isinstance(text, str) else list(text)
    except ValueError as error:
        raise AclTextError(f"{text!r} is no ACL: {error}") from None
    host = WILDCARD
    if len(words) > 4 and words[-2].lower() == _FROM:
        host = words[-1]
        words = words[:-2]
    if len(words) not in (4, 5):
        raise AclTextError(f"{shlex.join(words)!r} is no ACL like {EXAMPLE!r}")
    permission = _named(PermissionType, words[0], "permission")
    principal = words[1]
    if not all(principal.partition(":")[::2]):
        raise AclTextError(f"{principal!r} is no principal like 'User:alice'")
    operations = [_named(AclOperation, each, "operation") for each in words[2].split(",")]
    kind = _named(ResourceType, words[3], "resource")
    name, pattern = _pattern(kind, words[4:])
    return [AclBinding(kind, name, pattern, principal, host, operation, permission) for operation in operations]


def _pattern(kind: ResourceType, name: Sequence[str]) -> tuple[str, PatternType]:
    if kind is ResourceType.CLUSTER:
        if name and name[0] != CLUSTER_NAME:
            raise AclTextError("the cluster has no name")
        return CLUSTER_NAME, PatternType.LITERAL
    if not name or not name[0]:
        raise AclTextError(f"the name of the {shown(kind)} is missing")
    if name[0] != WILDCARD and name[0].endswith(WILDCARD):
        return name[0][:-1], PatternType.PREFIXED
    return name[0], PatternType.LITERAL


def _named(codes: type[_Code], word: str, what: str) -> _Code:
    """Return the code of a word; UNKNOWN and ANY have none."""
    known = {shown(each): each for each in codes if each > 1}
    found = known.get(word.lower().replace("_", "-"))
    if found is None:
        near = difflib.get_close_matches(word.lower(), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise AclTextError(f"{word!r} is no {what}; {hint}")
    return found


def shown(code: IntEnum) -> str:
    """Return a code as a word: transactional-id for TRANSACTIONAL_ID."""
    return code.name.lower().replace("_", "-")


def acl_text(acl: AclBinding) -> str:
    """Return an ACL as `parse_acl` reads it, unless its literal name ends in ``*`` and is longer."""
    words = [shown(acl.permission), acl.principal, acl.operation.name, shown(acl.resource_type)]
    if acl.resource_type is not ResourceType.CLUSTER:
        words.append(acl.resource_name + WILDCARD * (acl.pattern_type is PatternType.PREFIXED))
    if acl.host != WILDCARD:
        words += [_FROM, acl.host]
    return " ".join(each if _is_plain(each) else shlex.quote(each) for each in words)


def _is_plain(word: str) -> bool:
    """Return whether a word needs no quotes: those for the wildcard would only be in the way of readers."""
    return bool(word) and shlex.quote(word.replace(WILDCARD, "x")) == word.replace(WILDCARD, "x")


def parse_acls(texts: Iterable[str | Sequence[str]]) -> list[AclBinding]:
    """Return the ACLs of several texts.

    Raises:
        AclTextError: see `parse_acl`.
    """
    return [acl for text in texts for acl in parse_acl(text)]
