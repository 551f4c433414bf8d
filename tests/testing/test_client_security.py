"""What clients that log in are told: the logins of Java and the security objects of FastStream."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from purgatorio.testing.client_security import ClientSecurity, client_security, unsecured_token


@pytest.mark.parametrize(
    ("mechanism", "login"),
    [
        ("PLAIN", 'plain.PlainLoginModule required username="alice" password="alice-secret";'),
        ("SCRAM-SHA-512", 'scram.ScramLoginModule required username="alice" password="alice-secret";'),
        (
            "OAUTHBEARER",
            'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice";',
        ),
    ],
)
def test_a_java_client_logs_in_by_jaas(mechanism: str, login: str) -> None:
    settings = client_security(False, mechanism, None).client_settings("java", None)
    assert settings == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"org.apache.kafka.common.security.{login}",
    }


def test_quotes_in_a_password_stay_within_the_jaas_value() -> None:
    security = ClientSecurity(mechanism="PLAIN", passwords={"al": 'a"b\\c'})
    assert security.client_settings("java", "al")["sasl.jaas.config"].endswith(r'password="a\"b\\c";')


def test_a_java_client_trusts_the_authority_and_shows_its_certificate() -> None:
    settings = client_security(True, None, None).client_settings("java", "carol")
    assert settings["security.protocol"] == "SSL"
    assert settings["ssl.truststore.type"] == settings["ssl.keystore.type"] == "PEM"
    assert settings["ssl.keystore.location"].endswith("carol.pem")


@pytest.fixture
def faststream(monkeypatch: pytest.MonkeyPatch) -> None:
    """FastStream's security classes, which take what these note."""

    def noting(name: str) -> Any:
        return lambda *login, **named: SimpleNamespace(of=name, login=login, **named)

    module = ModuleType("faststream.security")
    for name in ("BaseSecurity", "SASLPlaintext", "SASLScram256", "SASLScram512", "SASLOAuthBearer"):
        setattr(module, name, noting(name))
    monkeypatch.setitem(sys.modules, "faststream", ModuleType("faststream"))
    monkeypatch.setitem(sys.modules, "faststream.security", module)


@pytest.mark.usefixtures("faststream")
@pytest.mark.parametrize(
    ("mechanism", "made"), [("PLAIN", "SASLPlaintext"), ("SCRAM-SHA-256", "SASLScram256"), (None, "BaseSecurity")]
)
def test_a_faststream_broker_gets_a_security_object(mechanism: str | None, made: str) -> None:
    settings = client_security(True, mechanism, None).client_settings("faststream", None)
    assert settings.keys() == {"security"}
    assert settings["security"].of == made
    assert settings["security"].login == (("alice", "alice-secret") if mechanism else ())
    assert settings["security"].use_ssl
    assert settings["security"].ssl_context is not None


@pytest.mark.usefixtures("faststream")
def test_a_faststream_broker_gets_tokens() -> None:
    settings = client_security(False, "OAUTHBEARER", None).client_settings("faststream", "zoe")
    assert settings["security"].of == "SASLOAuthBearer"
    assert unsecured_token("zoe").split(".")[0] == "eyJhbGciOiAibm9uZSJ9"
    assert "sasl_oauth_token_provider" in settings
