"""Names of clients from their certificates."""

from __future__ import annotations

import datetime
import re

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from purgatorio.broker.routing.request import ANONYMOUS, Principal
from purgatorio.broker.security import client_certificate
from purgatorio.broker.security.client_certificate import ClientCertificates, PrincipalMapping, distinguished_name


def certificate(*attributes: tuple[x509.ObjectIdentifier, str]) -> bytes:
    """Return a certificate in DER whose subject has these attributes, in this order."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def test_the_last_part_of_the_subject_comes_first_and_odd_characters_are_escaped() -> None:
    der = certificate(
        (NameOID.COUNTRY_NAME, "US"), (NameOID.ORGANIZATION_NAME, "Sales, North"), (NameOID.COMMON_NAME, "al+ice")
    )
    assert distinguished_name(der) == r"CN=al\+ice,O=Sales\, North,C=US"


def test_an_email_address_is_written_as_java_does_by_number_and_der() -> None:
    der = certificate((NameOID.EMAIL_ADDRESS, "a@b.example"), (NameOID.COMMON_NAME, "a"))
    assert distinguished_name(der) == f"CN=a,1.2.840.113549.1.9.1=#160b{b'a@b.example'.hex()}"
    long = "a" * 120 + "@b.example"
    assert f"#168182{long.encode().hex()}" in distinguished_name(certificate((NameOID.EMAIL_ADDRESS, long)))


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", "CN=Kafka-A,OU=Ops,C=US"),
        ("RULE:^CN=(.*?),.*$/$1/", "Kafka-A"),
        ("RULE:^CN=(.*?),.*$/$1/L", "kafka-a"),
        ("RULE:^CN=(.*?),.*$/$1/U", "KAFKA-A"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$2-$1/L", "ops-kafka-a"),
        ("RULE:^CN=nobody$/x/, DEFAULT", "CN=Kafka-A,OU=Ops,C=US"),
        ("RULE:CN=Kafka/x/, RULE:.*/all/", "all"),
        ("RULE:CN=.{1,7},.*/a\\/b/", "a/b"),
        ("RULE:^CN=nobody$/x/", None),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_makes_the_principals_name(rules: str, name: str | None) -> None:
    assert PrincipalMapping(rules).name("CN=Kafka-A,OU=Ops,C=US") == name


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ("CN=x", "is not like RULE:"),
        ("RULE:a/b", "is not like RULE:"),
        ("RULE:(/b/", "whose pattern is wrong"),
        ("RULE:(a)/$2/", "only 1 groups"),
        ("", "is not like RULE:"),
    ],
)
def test_malformed_rules_are_refused_with_a_sentence(rules: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        PrincipalMapping(rules)


def test_a_client_has_the_name_of_its_certificate_or_a_reason_why_it_has_none() -> None:
    """A subject that OpenSSL accepts and cryptography does not is a reason, and no error of the listener."""
    named = certificate((NameOID.COMMON_NAME, "alice"))
    malformed = certificate((NameOID.COUNTRY_NAME, "US")).replace(b"US", b"\xff\xfe")
    clients = ClientCertificates("RULE:^CN=(.*)$/$1/")
    assert clients(None) == ANONYMOUS
    assert clients(named) == Principal("User", "alice")
    assert clients(malformed) == "the subject of the client's certificate cannot be read"
    long = [(NameOID.ORGANIZATION_NAME, "," * 64)] * 40
    assert clients(certificate(*long)) == "the distinguished name of the client has 5239 characters"
    assert "have no name for C=US" in str(clients(certificate((NameOID.COUNTRY_NAME, "US"))))


def test_a_listener_that_asks_for_certificates_does_not_start_without_what_reads_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each client would be cut off otherwise."""
    monkeypatch.setattr(client_certificate, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"cryptography.* pip install .*\[security\]'"):
        ClientCertificates("DEFAULT")
