"""The access control lists of a running cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from purgatorio.broker.metadata.acl_filter import AclFilter
from purgatorio.broker.metadata.acls import AclBinding
from purgatorio.broker.metadata.controller import create_acls, delete_acls
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.operations.control.decisions import decided_for_all, newest
from purgatorio.broker.operations.control.network import Network
from purgatorio.broker.operations.errors import NotThere, OperationRefused
from purgatorio.broker.security.acl_text import acl_text

NO_AUTHORIZER = (
    "the cluster has no authorizer, so that ACLs have no effect: start it with authorizer.class.name=StandardAuthorizer"
)


class Acls:
    """Lists and changes the ACLs of a running cluster.

    Args:
        network: tells the brokers that take part in decisions.
        has_authorizer: whether ACLs are in effect.
    """

    def __init__(self, network: Network, *, has_authorizer: bool) -> None:
        self._network = network
        self.has_authorizer = has_authorizer

    def listed(self) -> list[AclBinding]:
        """Return all ACLs, oldest first.

        Raises:
            ClusterUnavailable: no broker runs that knows them.
        """
        return list(newest(self._network).image.acls)

    async def add(self, acls: Sequence[AclBinding]) -> None:
        """Add ACLs; returns when they are in effect at all brokers. One that exists is no error.

        Raises:
            OperationRefused: there cannot be such an ACL, or the cluster has no authorizer; none is added.
            ClusterUnavailable: no broker runs that could decide it, or brokers did not hear of it in time.
        """

        def decide(image: ClusterImage) -> tuple[ClusterImage, Sequence[str]]:
            changed, results = create_acls(image, acls)
            problems = [result.message or "" for result in results if result.error]
            return (image if problems else changed), problems

        await self._decide(decide)

    async def remove(self, acls: Sequence[AclBinding]) -> None:
        """Remove ACLs; returns when all brokers know.

        Raises:
            NotThere: one of them does not exist; none is removed.
            OperationRefused: the cluster has no authorizer.
            ClusterUnavailable: see `add`.
        """

        def decide(image: ClusterImage) -> tuple[ClusterImage, Sequence[str]]:
            unknown = [acl_text(acl) for acl in acls if acl not in image.acls]
            exact = [AclFilter(*acl) for acl in acls]
            return (image if unknown else delete_acls(image, exact)[0]), unknown

        try:
            await self._decide(decide)
        except _Problem as problem:
            raise NotThere(f"there is no ACL {str(problem)!r}") from None

    async def _decide(self, decide: Callable[[ClusterImage], tuple[ClusterImage, Sequence[str]]]) -> None:
        if not self.has_authorizer:
            raise OperationRefused(NO_AUTHORIZER)
        problems = await decided_for_all(self._network, decide, "the ACLs were not changed", "the ACLs")
        if problems:
            raise _Problem(problems[0])


class _Problem(OperationRefused):
    """Why a change was not made."""
