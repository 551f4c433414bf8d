"""Keeps the keys of tokens' issuers fresh: one task for each set of keys."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from purgatorio.broker.security.signed_tokens import KeySet
from purgatorio.logger import get_logger
from purgatorio.purgatory.clock import Clock, time_limit

REFRESH_MS: Final = 3_600_000
"""The time between two fetches, as in Kafka (sasl.oauthbearer.jwks.endpoint.refresh.ms)."""
RETRY_MS: Final = 10_000
"""The shortest time between two fetches: after a failure, and when a token names a key that is not known. Clients can
so not make the broker ask the issuer more often."""

_log = get_logger(__name__)


async def keep_fresh(keys: KeySet, clock: Clock) -> None:
    """Fetch keys now, each hour, and soon after a token has named one that is not known; until cancelled."""
    missed = asyncio.Event()
    keys.missed = missed.set
    while True:
        missed.clear()
        fetched = await _fetch(keys)
        await clock.sleep(RETRY_MS)
        if fetched:
            with contextlib.suppress(TimeoutError):
                async with time_limit(clock, REFRESH_MS - RETRY_MS):
                    await missed.wait()


async def _fetch(keys: KeySet) -> bool:
    try:
        count = keys.replace(await asyncio.to_thread(_read, keys.url))
    except (OSError, ValueError) as error:
        _log.warning("keys of tokens not fetched; those before stay in use", url=keys.url, why=str(error))
        return False
    _log.debug("keys of tokens fetched", url=keys.url, keys=count)
    return True


def _read(url: str) -> bytes:
    # Not at the top: few brokers have an issuer, and HTTP takes ten milliseconds to load.
    from purgatorio.broker.node.key_document import read_document

    return read_document(url)
