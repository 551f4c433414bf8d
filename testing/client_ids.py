"""Client ids: those of tests' clients, and those of connections between brokers."""

from __future__ import annotations

import re
from typing import Final


def is_broker(client: str) -> bool:
    """Return whether a client id is that of a connection between brokers (see `Broker`)."""
    return _BROKER(client) is not None


_BROKER: Final = re.compile(r"broker-\d+-[a-z]+").fullmatch
