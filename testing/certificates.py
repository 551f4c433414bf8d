"""Certificates of the clusters of a test run: one authority, which ends with the process."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import ssl

    from purgatorio.broker.security.throw_away import ThrowAwayAuthority

_FILE_NAME: Final = re.compile(r"[\w.@-]{1,64}")


@cache
def authority() -> ThrowAwayAuthority:
    """Return the authority that signs for all clusters of this process; making it takes some milliseconds.

    Raises:
        CertificatesUnavailable: the extra `security` is not installed.
    """
    import atexit  # these two not at the top: few clusters need certificates
    import tempfile

    from purgatorio.broker.security.throw_away import ThrowAwayAuthority

    folder = tempfile.TemporaryDirectory(prefix="purgatorio-test-")
    atexit.register(folder.cleanup)
    return ThrowAwayAuthority(Path(folder.name))


@cache
def _of_brokers() -> Path:
    from purgatorio.broker.security.throw_away import LOCAL_HOSTS

    return authority().issue("broker", *LOCAL_HOSTS)


@cache
def of_user(name: str) -> Path:
    """Return a keystore whose certificate makes its client the principal ``User:name``.

    Raises:
        ValueError: a certificate cannot have this name here.
    """
    if not _FILE_NAME.fullmatch(name) or name in ("broker", "ca"):
        raise ValueError(f"{name!r} cannot be in a certificate here: letters, digits and ._@- can, up to 64")
    return authority().issue(name)


def broker_settings() -> dict[str, str]:
    """Return the settings of brokers whose clients speak TLS, and may show a certificate with their principal."""
    return {
        "ssl_keystore_location": str(_of_brokers()),
        "ssl_truststore_location": str(authority().certificate),
        "ssl_client_auth": "requested",
        "ssl_principal_mapping_rules": "RULE:^CN=([^,]*),.*$/$1/,DEFAULT",
    }


def client_context(user: str | None) -> ssl.SSLContext:
    """Return the TLS of a client that trusts the brokers, and shows the certificate of `user`."""
    import ssl  # not at the top: few clusters need it

    context = ssl.create_default_context(cafile=str(authority().certificate))
    if user is not None:
        context.load_cert_chain(of_user(user))
    return context


def client_settings(library: str, user: str | None) -> dict[str, Any]:
    """Return what a client needs to trust the brokers, and to be `user`, in the words of its library."""
    trusted = str(authority().certificate)
    own = str(of_user(user)) if user is not None else None
    if library == "aiokafka":
        return {"ssl_context": client_context(user)}
    if library == "java":
        found = {"ssl.truststore.type": "PEM", "ssl.truststore.location": trusted}
        return found | ({"ssl.keystore.type": "PEM", "ssl.keystore.location": own} if own else {})
    if library == "kafka-python":
        return {"ssl_cafile": trusted} | ({"ssl_certfile": own, "ssl_keyfile": own} if own else {})
    found = {"ssl.ca.location": trusted}
    return found | ({"ssl.certificate.location": own, "ssl.key.location": own} if own else {})
