"""The schema registry beside a test's cluster: started when a test first asks for it, gone with the cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # A cluster without a registry loads nothing of it.
    from purgatorio.registry.kinds import RegistryTarget
    from purgatorio.registry.process import SchemaRegistry


class RegistryBeside:
    """The registry of a cluster, if it has one.

    Args:
        target: returns the cluster as the registry reaches it, at this port.
    """

    def __init__(self, target: Callable[[int], RegistryTarget]) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._registry: SchemaRegistry | None = None

    def running(self) -> SchemaRegistry:
        """Return the registry, which is started if it was not yet.

        Raises:
            RuntimeError: none is installed, or it does not start; the message says why.
        """
        from purgatorio.registry import RegistryUnavailable, SchemaRegistry, free_port
        from purgatorio.registry.kinds import LOOPBACK, chosen

        with self._lock:
            if self._registry is None:
                try:
                    registry = SchemaRegistry(chosen(None), self._target(free_port(LOOPBACK)))
                    registry.start()
                except RegistryUnavailable as error:
                    raise RuntimeError(str(error)) from None
                self._registry = registry
            return self._registry

    def restart(self) -> None:
        """Start it anew at the same address if it runs: the cluster has begun anew.

        Raises:
            RuntimeError: it does not start.
        """
        with self._lock:
            if self._registry is None:
                return
            from purgatorio.registry import RegistryUnavailable

            try:
                self._registry.restart()
            except RegistryUnavailable as error:
                raise RuntimeError(str(error)) from None

    def stop(self) -> None:
        """End it."""
        with self._lock:
            registry, self._registry = self._registry, None
            if registry is not None:
                registry.stop()

    def own(self, clients: Collection[str]) -> list[str]:
        """Return those of these client ids that are the registry's."""
        registry = self._registry
        return [] if registry is None else [each for each in clients if each.startswith(registry.client_prefix)]


def login_of(config: dict[str, object]) -> dict[str, str]:
    """Return how a registry logs in, of the settings of a client over librdkafka.

    Raises:
        RegistryUnavailable: it cannot, with tokens.
    """
    if "oauth_cb" in config:
        from purgatorio.registry import RegistryUnavailable

        raise RegistryUnavailable("the schema registry cannot log in with OAUTHBEARER: use another SASL mechanism")
    return {name: str(value) for name, value in config.items() if name.startswith(("security.", "sasl.", "ssl."))}
