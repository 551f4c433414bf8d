"""The outcome of a request to a share coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from purgatorio.broker.share.persister import ShareState
from purgatorio.protocol.errors import ErrorCode


class StateOutcome(NamedTuple):
    """An answer about one share partition.

    Attributes:
        message: the reason of an error; None: the code says it.
        state: what was read; None after other requests, and with an error.
    """

    error_code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state: ShareState | None = None


Answer = Callable[[StateOutcome], None]
"""Receives the outcome; called once."""
