"""Keeps the keys of tokens' issuers fresh: one task for each set of keys."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import urllib.request
from typing import Any, Final

from purgatorio.broker.security.signed_tokens import KeySet, KeySetError
from purgatorio.broker.time.clock import Clock, time_limit
from purgatorio.logger import get_logger

REFRESH_MS: Final = 3_600_000
"""The time between two fetches, as in Kafka (sasl.oauthbearer.jwks.endpoint.refresh.ms)."""
RETRY_MS: Final = 10_000
"""The shortest time between two fetches: after a failure, and when a token names a key that is not known. Clients can
so not make the broker ask the issuer more often."""
FETCH_TIMEOUT_SECONDS: Final = 5.0
MAX_DOCUMENT_BYTES: Final = 1024 * 1024

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
    except (OSError, ValueError, http.client.HTTPException) as error:
        _log.warning("keys of tokens not fetched; those before stay in use", url=keys.url, why=str(error))
        return False
    _log.debug("keys of tokens fetched", url=keys.url, keys=count)
    return True


def _read(url: str) -> bytes:
    opener = urllib.request.build_opener(_NoRedirect())
    with opener.open(url, timeout=FETCH_TIMEOUT_SECONDS) as answer:
        document: bytes = answer.read(MAX_DOCUMENT_BYTES + 1)
    if len(document) > MAX_DOCUMENT_BYTES:
        raise KeySetError(f"more than {MAX_DOCUMENT_BYTES} bytes")
    return document


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the keys come from where the operator said, or not at all."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return the redirect itself as the answer, an error."""
