"""How coordinators ask other brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purgatorio.protocol.api_key import ApiKey

AskBroker = Callable[[int, ApiKey, int, Any, Callable[[Any, Exception | None], None]], None]
"""Sends another broker a request, in a version; calls the last argument once, perhaps before it returns: with the
response, or with None and why there is none (see `purgatorio.broker.server.peers.Peers.send`)."""
