"""How a FastStream broker speaks to a test's cluster: its security is an object, and FastStream is imported for it."""

from __future__ import annotations

import importlib
from typing import Any, Final

from purgatorio.testing import certificates
from purgatorio.testing.tokens import token_settings

_CLASSES: Final = {
    None: "BaseSecurity",
    "PLAIN": "SASLPlaintext",
    "SCRAM-SHA-256": "SASLScram256",
    "SCRAM-SHA-512": "SASLScram512",
    "OAUTHBEARER": "SASLOAuthBearer",
}


def faststream_settings(tls: bool, mechanism: str | None, login: tuple[str, str], user: str | None) -> dict[str, Any]:
    """Return the keywords of `faststream.kafka.KafkaBroker` for a cluster with TLS, SASL or both.

    Args:
        login: the name and password for `mechanism`.
        user: the name in the client's certificate, with TLS alone.

    Raises:
        ModuleNotFoundError: FastStream is not installed.
    """
    security = getattr(importlib.import_module("faststream.security"), _CLASSES[mechanism])
    context = certificates.client_context(user) if tls else None
    if mechanism is None or mechanism == "OAUTHBEARER":
        made = {"security": security(ssl_context=context, use_ssl=tls)}
        return made | (token_settings("aiokafka", login[0]) if mechanism else {})
    return {"security": security(*login, ssl_context=context, use_ssl=tls)}
