"""Reads the document with the keys of a tokens' issuer. Loaded by the first broker that has such an issuer."""

from __future__ import annotations

import http.client
import urllib.request
from typing import Any, Final

from purgatorio.broker.security.signed_tokens import KeySetError

FETCH_TIMEOUT_SECONDS: Final = 5.0
MAX_DOCUMENT_BYTES: Final = 1024 * 1024


def read_document(url: str) -> bytes:
    """Return the document; blocks, in a thread.

    Raises:
        OSError: it cannot be read, or it is behind a redirect.
        KeySetError: it is too long, or the answer is not HTTP.
    """
    opener = urllib.request.build_opener(_NoRedirect())
    try:
        with opener.open(url, timeout=FETCH_TIMEOUT_SECONDS) as answer:
            document: bytes = answer.read(MAX_DOCUMENT_BYTES + 1)
    except http.client.HTTPException as error:
        raise KeySetError(str(error)) from error
    if len(document) > MAX_DOCUMENT_BYTES:
        raise KeySetError(f"more than {MAX_DOCUMENT_BYTES} bytes")
    return document


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the keys come from where the operator said, or not at all."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return the redirect itself as the answer, an error."""
