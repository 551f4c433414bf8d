"""The TLS context of a listener, and how it follows its files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import trustme

from purgatorio.broker.security.tls import ReloadedContext, TlsError, TlsSettings, server_context
from tests.certificates import Certificates


def test_each_setting_that_cannot_be_used_is_named(certificates: Certificates, tmp_path: Path) -> None:
    keystore = str(certificates.broker)
    other = tmp_path / "other.pem"
    other.write_text("no certificate")
    mixed = tmp_path / "mixed.pem"
    key = certificates.alice.read_text().partition("-----BEGIN CERTIFICATE")[0]
    mixed.write_text(
        key + "-----BEGIN CERTIFICATE" + certificates.broker.read_text().partition("-----BEGIN CERTIFICATE")[2]
    )
    for settings, why in (
        (TlsSettings(keystore_location=None), "ssl.keystore.location is not set"),
        (TlsSettings(keystore_location="/nowhere.pem"), "cannot be read: no such file"),
        (TlsSettings(keystore_location=str(other)), "is no PEM file"),
        (TlsSettings(keystore_location=str(mixed)), "does not belong to its first certificate"),
        (TlsSettings(keystore_location=keystore, client_auth="required"), "ssl.truststore.location is not set"),
        (TlsSettings(keystore_location=keystore, truststore_location=str(other)), "ssl.truststore.location"),
    ):
        with pytest.raises(TlsError) as refused:
            server_context(settings)
        assert why in str(refused.value)


def test_a_certificate_that_is_renewed_is_used_for_the_next_connection(
    certificates: Certificates, tmp_path: Path
) -> None:
    keystore = tmp_path / "broker.pem"
    shutil.copy(certificates.broker, keystore)
    context = ReloadedContext(TlsSettings(keystore_location=str(keystore)))
    first = context()
    assert context() is first, "files that have not changed are not read again"
    trustme.CA().issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(keystore))
    os.utime(keystore, ns=(1, 1))
    second = context()
    assert second is not first
    keystore.write_text("half a fi")
    os.utime(keystore, ns=(2, 2))
    assert context() is second, "files that cannot be used leave the last ones in use"
    keystore.unlink()
    assert context() is second
