"""TLS of a listener: the context that new connections get, read again when its files change.

Files are PEM (KIP-651). A keystore has the private key and the certificate chain; a truststore has the certificates of
the authorities that sign clients' certificates.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable

from purgatorio.late import dataclass
from purgatorio.logger import get_logger

_log = get_logger(__name__)

_VERIFY_MODES = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class TlsError(Exception):
    """The TLS settings of a listener cannot be used; the text says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """The TLS settings of one listener.

    Attributes:
        client_auth: none, requested or required, as in Kafka.
        versions: TLSv1.2, TLSv1.3, or both.
        principal_mapping_rules: see `purgatorio.broker.security.client_certificate`.
        verifies_host: the client's side makes sure that a certificate names the host to which it connects.
    """

    keystore_location: str | None
    key_password: str | None = None
    truststore_location: str | None = None
    client_auth: str = "none"
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    principal_mapping_rules: str = "DEFAULT"
    verifies_host: bool = True


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return a new context for the server's side.

    Raises:
        TlsError: a file is missing or has not what it should have, or the settings lack something.
    """
    if settings.keystore_location is None:
        raise TlsError("ssl.keystore.location is not set: a PEM file with the private key and the certificate chain")
    if settings.client_auth != "none" and settings.truststore_location is None:
        raise TlsError(f"ssl.client.auth is {settings.client_auth}, but ssl.truststore.location is not set")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = _VERIFY_MODES[settings.client_auth]
    _load(context, settings)
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return a new context for the side of a broker that connects to another one; it shows its own certificate.

    Raises:
        TlsError: see `server_context`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.verifies_host
    _load(context, settings)
    return context


def _load(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Give a context the files and versions."""
    assert settings.keystore_location is not None, "it was checked"
    versions = [_VERSIONS[each] for each in settings.versions]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    try:
        # Without a callback OpenSSL would ask the terminal for a password.
        context.load_cert_chain(settings.keystore_location, password=lambda: settings.key_password or "")
    except (OSError, ssl.SSLError) as error:
        raise TlsError(f"ssl.keystore.location {settings.keystore_location} {_problem(error)}") from None
    if settings.truststore_location is not None:
        try:
            context.load_verify_locations(settings.truststore_location)
        except (OSError, ssl.SSLError) as error:
            raise TlsError(f"ssl.truststore.location {settings.truststore_location} {_problem(error)}") from None


def _problem(error: OSError) -> str:
    if not isinstance(error, ssl.SSLError):
        return f"cannot be read: {(error.strerror or str(error)).lower()}"
    if "PASSWORD" in (error.reason or "") or "DECRYPT" in (error.reason or ""):
        return "has a private key that ssl.key.password does not open"
    if error.reason == "KEY_VALUES_MISMATCH":
        return "has a private key that does not belong to its first certificate"
    return "is no PEM file with a private key and certificates (keystore) or with certificates (truststore)"


class ReloadedContext:
    """The context for new connections. It is made anew when one of its files has changed.

    A certificate is so renewed without a restart, and an authority dropped, which no living context can do. Connections
    that are open keep theirs. Files that cannot be used any more leave the last context in use, and are logged.

    Args:
        make: makes a context of the settings: `server_context` for a listener.

    Raises:
        TlsError: see `server_context`.
    """

    def __init__(self, settings: TlsSettings, make: Callable[[TlsSettings], ssl.SSLContext] = server_context) -> None:
        self._settings = settings
        self._make = make
        self._seen = self._files()
        self._context = make(settings)

    def __call__(self) -> ssl.SSLContext:
        """Return the context for a new connection; looks at the files, which takes some microseconds."""
        found = self._files()
        if found != self._seen:
            self._seen = found
            try:
                self._context = self._make(self._settings)
                _log.info("tls files read again", keystore=self._settings.keystore_location)
            except TlsError as error:
                _log.warning("tls files changed, but cannot be used; the ones before stay in use", why=str(error))
        return self._context

    def _files(self) -> list[tuple[int, int] | None]:
        """Return what changes when a file is written or replaced."""
        found: list[tuple[int, int] | None] = []
        for path in (self._settings.keystore_location, self._settings.truststore_location):
            try:
                status = os.stat(path) if path else None
            except OSError:
                status = None
            found.append((status.st_mtime_ns, status.st_ino) if status else None)
        return found
