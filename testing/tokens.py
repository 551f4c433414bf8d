"""Tokens without a signature (KIP-255), by which each client of a test's cluster has the name that it says."""

from __future__ import annotations

import base64
import importlib
import json
import time
from typing import Any, Final

LIFETIME_SECONDS: Final = 10 * 365 * 24 * 3600
"""Tests move the brokers' time; a token should not end by that."""

_PROVIDERS: Final = {"aiokafka": ("aiokafka.abc", "async"), "kafka-python": ("kafka.net.sasl.oauth", "sync")}
"""The module with the base class of token providers, and of which kind its method is."""


def unsecured_token(name: str) -> str:
    """Return a token of this name."""
    claims = {"sub": name, "exp": int(time.time()) + LIFETIME_SECONDS}
    parts = (base64.urlsafe_b64encode(json.dumps(each).encode()).decode() for each in ({"alg": "none"}, claims))
    return ".".join(part.rstrip("=") for part in parts) + "."


def token_settings(library: str, name: str) -> dict[str, Any]:
    """Return what gives a client its tokens, in the words of its library."""
    token = unsecured_token(name)
    if library == "confluent":
        return {"oauth_cb": lambda _: (token, time.time() + LIFETIME_SECONDS)}
    return {"sasl_oauth_token_provider": _provider(library, token)}


def _provider(library: str, token: str) -> Any:
    """Return a token provider, which must be of a class of the library."""

    async def awaited(provider: object) -> str:
        return token

    module, method = _PROVIDERS[library]
    base = importlib.import_module(module).AbstractTokenProvider
    own = type("TokenProvider", (base,), {"token": awaited if method == "async" else lambda provider: token})
    return own()
