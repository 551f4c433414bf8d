"""The rights of a running cluster's clients: users with SCRAM credentials, client quotas, access control lists.

A change is decided by the metadata store; these return when all brokers know it, and raise ClusterUnavailable if no
broker runs that could decide it, or brokers did not hear of it in time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.broker.cluster.decisions import decided_for_all
from purgatorio.broker.cluster.errors import NotThere, OperationRefused
from purgatorio.broker.cluster.network import Network
from purgatorio.broker.layers.quotas.altering import EntityEdit, QuotaEdit, alter_client_quotas
from purgatorio.broker.layers.quotas.naming import EntityPart
from purgatorio.broker.metadata.acls import AclBinding, AclFilter
from purgatorio.broker.metadata.controller import create_acls, delete_acls
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.security.acl_text import acl_text
from purgatorio.broker.security.scram_users import ScramEdit, alter_scram_credentials
from purgatorio.protocol.errors import ErrorCode

NO_AUTHORIZER = (
    "the cluster has no authorizer, so that ACLs have no effect: start it with authorizer.class.name=StandardAuthorizer"
)


async def edit_user(network: Network, edit: ScramEdit) -> None:
    """Set or delete a credential. Connections that are open stay so.

    Raises:
        NotThere: the credential to delete does not exist.
        OperationRefused: the edit cannot be made; the text says why.
    """
    (result,) = await decided_for_all(
        network, lambda image: alter_scram_credentials(image, [edit]), "the user was not changed", "the user"
    )
    if result.error == ErrorCode.RESOURCE_NOT_FOUND:
        raise NotThere(f"user {edit.name!r} has no such credential")
    if result.error:
        raise OperationRefused(result.message)


async def edit_quotas(network: Network, entity: Sequence[EntityPart], values: Mapping[str, float | None]) -> None:
    """Set quotas of an entity, or remove those whose value is None.

    Raises:
        OperationRefused: there is no such entity or quota, or its value cannot be; the text says why.
    """
    edit = EntityEdit(entity, [QuotaEdit(key, value) for key, value in values.items()])
    (result,) = await decided_for_all(
        network, lambda image: alter_client_quotas(image, [edit]), "the quotas were not changed", "the quotas"
    )
    if result.error:
        raise OperationRefused(result.message or result.error.name)


def has_authorizer(cluster: BrokerCluster) -> bool:
    """Return whether ACLs are in effect."""
    return any(each.access is not None for each in cluster.brokers)


async def add_acls(cluster: BrokerCluster, acls: Sequence[AclBinding]) -> None:
    """Add ACLs, all or none; an ACL that exists already is no error.

    Raises:
        OperationRefused: there cannot be such an ACL, or the cluster has no authorizer.
    """

    def decide(image: ClusterImage) -> tuple[ClusterImage, Sequence[str]]:
        changed, results = create_acls(image, acls)
        problems = [result.message or "" for result in results if result.error]
        return (image if problems else changed), problems

    for problem in await _decided(cluster, decide):
        raise OperationRefused(problem)


async def remove_acls(cluster: BrokerCluster, acls: Sequence[AclBinding]) -> None:
    """Remove ACLs, all or none.

    Raises:
        NotThere: one of them does not exist.
        OperationRefused: the cluster has no authorizer.
    """

    def decide(image: ClusterImage) -> tuple[ClusterImage, Sequence[str]]:
        unknown = [acl_text(acl) for acl in acls if acl not in image.acls]
        exact = [AclFilter(*acl) for acl in acls]
        return (image if unknown else delete_acls(image, exact)[0]), unknown

    for unknown in await _decided(cluster, decide):
        raise NotThere(f"there is no ACL {unknown!r}")


async def _decided(
    cluster: BrokerCluster, decide: Callable[[ClusterImage], tuple[ClusterImage, Sequence[str]]]
) -> Sequence[str]:
    if not has_authorizer(cluster):
        raise OperationRefused(NO_AUTHORIZER)
    return await decided_for_all(cluster.network, decide, "the ACLs were not changed", "the ACLs")
