"""The users of a cluster that have SCRAM credentials."""

from __future__ import annotations

from typing import NamedTuple

from purgatorio.broker.metadata.clients import ScramMechanism
from purgatorio.broker.operations.control.decisions import decided_for_all, newest
from purgatorio.broker.operations.control.network import Network
from purgatorio.broker.operations.errors import NotThere, OperationRefused
from purgatorio.broker.security.scram_users import ScramEdit, alter_scram_credentials
from purgatorio.protocol.errors import ErrorCode


class ListedCredential(NamedTuple):
    """What may be told of a credential."""

    name: str
    mechanism: ScramMechanism
    iterations: int


class Users:
    """Lists and changes the users of a running cluster.

    Args:
        network: tells the brokers that take part in decisions.
    """

    def __init__(self, network: Network) -> None:
        self._network = network

    def listed(self) -> list[ListedCredential]:
        """Return all credentials by name and mechanism.

        Raises:
            ClusterUnavailable: no broker runs that knows them.
        """
        credentials = newest(self._network).image.scram_credentials
        return [ListedCredential(*user, credential.iterations) for user, credential in sorted(credentials.items())]

    async def edit(self, edit: ScramEdit) -> None:
        """Set or delete a credential; returns when all brokers know. Connections that are open stay so.

        Raises:
            NotThere: the credential to delete does not exist.
            OperationRefused: the edit cannot be made; the text says why.
            ClusterUnavailable: no broker runs that could decide it, or brokers did not hear of it in time.
        """
        results = await decided_for_all(
            self._network, lambda image: alter_scram_credentials(image, [edit]), "the user was not changed", "the user"
        )
        result = results[0]
        if result.error == ErrorCode.RESOURCE_NOT_FOUND:
            raise NotThere(f"user {edit.name!r} has no such credential")
        if result.error:
            raise OperationRefused(result.message)
