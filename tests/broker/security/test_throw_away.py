"""The keystores of the throw-away authority."""

from __future__ import annotations

import ssl
from pathlib import Path

from purgatorio.broker.security.throw_away import ThrowAwayAuthority


def test_kip_651_a_keystore_has_its_key_in_the_form_that_java_reads(tmp_path: Path) -> None:
    """Java refuses a key in OpenSSL's own form: "algid parse error, not a sequence"."""
    keystore = ThrowAwayAuthority(tmp_path).issue("alice")
    assert keystore.read_text().startswith("-----BEGIN PRIVATE KEY-----\n")
    ssl.create_default_context().load_cert_chain(keystore)
