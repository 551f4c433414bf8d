"""Certificates of brokers: which ones a broker would accept itself, and what is said of the others."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from purgatorio.broker.security.brokers_tls import check_own, known_broker, why_no_tls
from purgatorio.broker.security.tls import TlsError, TlsSettings
from tests.certificates import LAST_YEAR, BrokerAuthority


@pytest.fixture
def authority(tmp_path: Path) -> BrokerAuthority:
    return BrokerAuthority(tmp_path / "brokers")


def settings(keystore: Path, authority: BrokerAuthority, **other: bool) -> TlsSettings:
    return TlsSettings(
        keystore_location=str(keystore), truststore_location=str(authority.certificate), client_auth="required", **other
    )


def test_a_certificate_for_the_host_by_the_brokers_authority_is_accepted(authority: BrokerAuthority) -> None:
    check_own(settings(authority.issue("1"), authority), "127.0.0.1")
    check_own(settings(authority.issue("2", host="broker-2"), authority), "broker-2")
    check_own(settings(authority.issue("3", host="broker-3"), authority, verifies_host=False), "127.0.0.1")


def test_a_certificate_that_others_would_refuse_is_refused_at_the_start(
    authority: BrokerAuthority, tmp_path: Path
) -> None:
    other = BrokerAuthority(tmp_path / "others")
    for keystore, why in (
        (authority.issue("expired", not_after=LAST_YEAR), "certificate has expired; it needs a certificate for"),
        (authority.issue("elsewhere", host="10.0.0.1"), "IP address mismatch"),
        (other.issue("1"), "unable to get local issuer certificate"),
    ):
        with pytest.raises(TlsError) as refused:
            check_own(settings(keystore, authority), "127.0.0.1")
        assert why in str(refused.value)
        assert f"listener.name.brokers.ssl.keystore.location {keystore} would be refused" in str(refused.value)


def test_who_shows_no_certificate_is_no_broker() -> None:
    principal = known_broker(b"verified by OpenSSL")
    assert not isinstance(principal, str)
    assert principal.is_broker
    assert "no certificate: set security.inter.broker.protocol" in str(known_broker(None))


def test_what_fails_between_two_brokers_names_the_setting() -> None:
    alert = ssl.SSLError()
    alert.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    assert why_no_tls(alert).startswith("refuses this broker's certificate, it got none: set listener.name.brokers.")
    alert.reason = "WRONG_VERSION_NUMBER"
    assert why_no_tls(alert).startswith("does not speak TLS with this broker (WRONG_VERSION_NUMBER): set security.")
    assert why_no_tls(None).startswith("closed the connection: it refuses this broker's certificate, or does not")
