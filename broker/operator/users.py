"""The users of a cluster that have SCRAM credentials."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from purgatorio.broker.metadata.clients import ScramMechanism
from purgatorio.broker.metadata.store import StoreError
from purgatorio.broker.operator.errors import ClusterUnavailable, NotThere, OperationRefused
from purgatorio.broker.operator.network import ConnectedBroker, Network
from purgatorio.broker.operator.polling import until
from purgatorio.broker.security.scram_users import ScramEdit, ScramResult, alter_scram_credentials
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
        credentials = self._newest().image.scram_credentials
        return [ListedCredential(*user, credential.iterations) for user, credential in sorted(credentials.items())]

    async def edit(self, edit: ScramEdit) -> None:
        """Set or delete a credential; returns when all brokers know. Connections that are open stay so.

        Raises:
            NotThere: the credential to delete does not exist.
            OperationRefused: the edit cannot be made; the text says why.
            ClusterUnavailable: no broker runs that could decide it, or brokers did not hear of it in time.
        """
        answer: asyncio.Future[ScramResult] = asyncio.get_running_loop().create_future()
        broker = self._newest()
        broker.store.submit(
            lambda image: alter_scram_credentials(image, [edit]),
            lambda results: None if answer.done() else answer.set_result(results[0]),
            lambda error: None if answer.done() else answer.set_exception(error),
        )
        try:
            result = await answer
        except StoreError as error:
            raise ClusterUnavailable(f"the user was not changed: {error}") from error
        if result.error == ErrorCode.RESOURCE_NOT_FOUND:
            raise NotThere(f"user {edit.name!r} has no such credential")
        if result.error:
            raise OperationRefused(result.message)
        version = broker.image.version
        await until(
            lambda: all(each.image.version >= version for each in self._network.brokers), "all brokers know the user"
        )

    def _newest(self) -> ConnectedBroker:
        brokers = self._network.brokers
        if not brokers:
            raise ClusterUnavailable("no broker is running that reaches the metadata")
        return max(brokers, key=lambda each: each.image.version)
