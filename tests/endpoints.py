"""Where the brokers of tests say that they are."""

from __future__ import annotations

from purgatorio.broker.metadata.image import Endpoint


def plaintext(host: str, port: int) -> tuple[Endpoint, ...]:
    """The endpoints of a broker with one listener, as brokers have it."""
    return (Endpoint("PLAINTEXT", host, port),)
