"""Whether a client may do an operation on a resource, by the rules of Kafka's StandardAuthorizer (KIP-11, KIP-290).

The ACLs are those of the broker's image; a new image is in effect for the next request. Super users and the brokers
may do everything. Else an ACL that denies wins over those that allow; where no ACL is about a resource,
allow.everyone.if.no.acl.found decides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from purgatorio.broker.metadata.acls import AclBinding, AclOperation, ResourceType
from purgatorio.broker.metadata.store import MetadataStore
from purgatorio.broker.routing.request import Principal, Session
from purgatorio.broker.security.acl_index import ALL_OPERATIONS, AclIndex, clients_of

MAX_KEPT: Final = 100_000
"""Results that are kept, of all clients together; then all are forgotten. Each takes some 150 bytes."""
MAX_NAME_KEPT: Final = 255
"""The longest name of which a result is kept; topics' names have at most 249 characters."""
_NO_NAME: Final = ""
"""A name that no resource has, and about which only the ACLs of every name are."""


class Authorizer:
    """Answers for one broker.

    Args:
        store: has the broker's image; the mapping of its ACLs is another object if they have changed.
        super_users: principals as `User:admin`, which may do everything.
        allow_everyone: whether every client may use a resource that no ACL is about.
    """

    def __init__(
        self,
        store: MetadataStore,
        *,
        super_users: Collection[str] = (),
        allow_everyone: bool = False,
    ) -> None:
        self._store = store
        self._super_users = frozenset(super_users)
        self.unnamed = ALL_OPERATIONS if allow_everyone else 0
        self.index = AclIndex()
        self._indexed: Mapping[AclBinding, None] = {}
        self._clients: dict[tuple[str, str], Permissions] = {}
        self._kept = 0

    def of(self, session: Session) -> Permissions:
        """Return what the client of a connection may do now; ask again for the next request."""
        if self._store.image.acls is not self._indexed:
            self._adopt()
        known = session.permissions
        if isinstance(known, _Known) and known.permissions.is_current and known.principal is session.principal:
            return known.permissions
        return self._find(session)

    def _adopt(self) -> None:
        acls = self._store.image.acls
        self.index.change(self._indexed, acls)
        self._indexed = acls
        self._forget()

    def _find(self, session: Session) -> Permissions:
        principal, host = str(session.principal), session.host
        found = self._clients.get((principal, host))
        if found is None:
            self.keep_one_more()
            found = Permissions(self, principal, host, is_super=self._is_super(session.principal))
            self._clients[principal, host] = found
        session.permissions = _Known(session.principal, found)
        return found

    def _is_super(self, principal: Principal) -> bool:
        return principal.is_broker or str(principal) in self._super_users

    def keep_one_more(self) -> None:
        """Count a result that will be kept; forget the others if there are too many."""
        if self._kept >= MAX_KEPT:
            self._forget()
        self._kept += 1

    def _forget(self) -> None:
        for client in self._clients.values():
            client.forget()
        self._clients = {}
        self._kept = 0


class _Known(NamedTuple):
    """The permissions that a connection caches, with the principal they belong to."""

    principal: Principal
    permissions: Permissions


class Permissions:
    """The operations that one principal may do from one host; results are cached.

    Attributes:
        is_current: whether further requests may use it; its results always follow the present ACLs.
        kept: the cached results by type of resource: the permitted operations by name, as bit fields.
    """

    __slots__ = ("_authorizer", "_clients", "_is_super", "_somewhere", "is_current", "kept")

    def __init__(self, authorizer: Authorizer, principal: str, host: str, *, is_super: bool) -> None:
        self._authorizer = authorizer
        self._clients = clients_of(principal, host)
        self._is_super = is_super
        self.kept: list[dict[str, int]] = [{} for _ in ResourceType]
        self._somewhere: dict[tuple[int, int], bool] = {}
        self.is_current = True

    def forget(self) -> None:
        """Forget what it was asked: the ACLs have changed, or too much is kept."""
        self.is_current = False
        self._somewhere = {}
        for kept in self.kept:
            kept.clear()

    def allows(self, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        """Return whether the principal may do an operation on a resource, by the cache if it has it."""
        permitted = self.kept[kind].get(name)
        if permitted is None:
            permitted = self._look_up(kind, name)
        return bool(permitted >> operation & 1)

    def operations(self, kind: ResourceType, name: str) -> int:
        """Return what it may do on a resource, as a bit field (KIP-430)."""
        permitted = self.kept[kind].get(name)
        return self._look_up(kind, name) if permitted is None else permitted

    def _look_up(self, kind: ResourceType, name: str) -> int:
        permitted = self._decide(kind, name)
        if len(name) <= MAX_NAME_KEPT:
            self._authorizer.keep_one_more()
            self.kept[kind][name] = permitted
        return permitted

    def _decide(self, kind: ResourceType, name: str) -> int:
        if self._is_super:
            return ALL_OPERATIONS
        return self._authorizer.index.permitted(kind, name, self._clients, self._authorizer.unnamed)

    def allows_somewhere(self, operation: AclOperation, kind: ResourceType) -> bool:
        """Return whether it may do an operation on at least one resource of a type, which need not exist (KIP-679)."""
        known = self._somewhere.get((operation, kind))
        if known is None:
            known = self.allows(operation, kind, _NO_NAME) or self._authorizer.index.permits_somewhere(
                operation, kind, self._clients
            )
            self._somewhere[operation, kind] = known
        return known
