"""TLS between brokers: a broker is known by its certificate, and what fails is said in words that name the setting."""

from __future__ import annotations

import ssl
from typing import Final

from purgatorio.broker.routing.request import BROKER, Principal
from purgatorio.broker.security.tls import TlsError, TlsSettings, client_context, server_context

_KEYSTORE: Final = "listener.name.brokers.ssl.keystore.location"
_TRUSTSTORE: Final = "listener.name.brokers.ssl.truststore.location"
REMEDY: Final = "set security.inter.broker.protocol and listener.name.brokers.ssl.… as at the cluster's other brokers"
_REFUSALS: Final = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it got none",
    "TLSV1_ALERT_UNKNOWN_CA": "its authority is unknown there",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it has expired",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it is not valid",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it is not accepted there",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "it got none, or there is no cipher in common",
}
"""Reasons for the other broker's alert about this one's certificate, by OpenSSL's names."""


class TlsRefused(ConnectionError):
    """Another broker and this one do not accept each other's certificates, or one of them speaks no TLS."""


def known_broker(certificate: bytes | None) -> Principal | str:
    """Return the principal of a broker that has shown a certificate of the brokers' authority, or why it has none."""
    return f"no certificate: {REMEDY}" if certificate is None else Principal(BROKER, "certificate")


def why_no_tls(error: Exception | None) -> str:
    """Return why another broker and this one do not speak TLS, to be read after the other one's address.

    Some event loops do not send the alert with the reason; then the connection ends before the first answer.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"shows a certificate that this broker refuses: {error.verify_message.rstrip('.')}; its {_KEYSTORE} and "
            f"this broker's {_TRUSTSTORE} must be of one authority"
        )
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    if reason in _REFUSALS:
        return (
            f"refuses this broker's certificate, {_REFUSALS[reason]}: set {_KEYSTORE} to one that its authority signed"
        )
    if reason:
        return f"does not speak TLS with this broker ({reason}): {REMEDY}"
    return f"closed the connection: it refuses this broker's certificate, or does not speak TLS: {REMEDY}"


def check_own(settings: TlsSettings, host: str) -> None:
    """Make sure that a broker with these settings would accept itself at an address, by shaking hands with itself.

    Raises:
        TlsError: it would not; the text says why, and what to set.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    name = host if settings.verifies_host else None
    client = client_context(settings).wrap_bio(to_client, to_server, server_hostname=name)
    server = server_context(settings).wrap_bio(to_server, to_client, server_side=True)
    waits = [client, server]
    try:
        while waits:
            waits = [each for each in waits if not _is_done(each)]
    except ssl.SSLCertVerificationError as error:
        raise TlsError(
            f"{_KEYSTORE} {settings.keystore_location} would be refused by the other brokers: "
            f"{error.verify_message.rstrip('.')}; it needs a certificate for {host} that is valid now, signed by the "
            f"authority in {_TRUSTSTORE} {settings.truststore_location}"
        ) from None
    except ssl.SSLError as error:
        raise TlsError(f"{_KEYSTORE} {settings.keystore_location} cannot be used: {error.reason}; {REMEDY}") from None


def _is_done(side: ssl.SSLObject) -> bool:
    """Take one side's handshake as far as what the other one has sent; returns whether it is done."""
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
