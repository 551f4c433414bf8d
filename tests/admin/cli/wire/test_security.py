"""A file of Kafka's client settings: TLS, SASL, and what of it cannot be used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from purgatorio.admin.cli import main as cli
from purgatorio.admin.cli.wire.security import SettingsError, read_security
from purgatorio.testing import Kafka, cluster

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a\\"b" password="x=y";'


@pytest.fixture(scope="module", params=["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def secured(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """A cluster with TLS and a mechanism."""
    with cluster(brokers=1, topics={"orders": 1}, tls=True, sasl=request.param) as running:
        yield running


def written(folder: Path, settings: Mapping[str, object]) -> str:
    file = folder / "client.properties"
    text = "".join(f"{name}={value}\n".replace("\\", "\\\\") for name, value in settings.items())
    file.write_text("# settings of a client\n" + text)
    return str(file)


def listed(file: str, capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    code = cli.main(["topics", "list", "--command-config", file, *argv])
    printed = capsys.readouterr()
    return code, printed.out or printed.err


def test_a_user_is_let_in_by_the_settings_of_a_java_client(
    secured: Kafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = dict(secured.client_config("java"))
    code, out = listed(written(tmp_path, settings), capsys)
    assert (code, out.splitlines()[1].split()[0]) == (0, "orders-0")
    if "SCRAM" in str(settings["sasl.mechanism"]):
        other = {**settings, "sasl.mechanism": "PLAIN"}
        code, out = listed(written(tmp_path, other), capsys)
        assert (code, "UNSUPPORTED_SASL_MECHANISM: the broker has " in out) == (1, True)


def test_a_wrong_password_is_refused(secured: Kafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = dict(secured.client_config("java"))
    jaas = str(settings["sasl.jaas.config"])
    file = written(tmp_path, {**settings, "sasl.jaas.config": jaas.replace('password="', 'password="not-')})
    code, out = listed(file, capsys)
    assert code == 1
    assert out.startswith("purgatorio: SASL_AUTHENTICATION_FAILED: ")


def test_brokers_whose_certificate_is_not_known_are_refused(
    secured: Kafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = dict(secured.client_config("java"))
    del settings["ssl.truststore.location"]
    code, out = listed(written(tmp_path, settings), capsys)
    assert code == 1
    assert "its certificate is not to be trusted: " in out


def test_a_client_without_tls_says_that_it_may_be_wanted(secured: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["topics", "list", "--bootstrap", secured.bootstrap, "--timeout", "5"]) == 1
    assert "does not answer as a broker of Kafka; it may want TLS" in capsys.readouterr().err


def test_certificates_may_stand_in_the_file(secured: Kafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = dict(secured.client_config("java"))
    pem = Path(str(settings.pop("ssl.truststore.location"))).read_text()
    settings["ssl.truststore.certificates"] = " ".join(pem.split("\n"))
    assert listed(written(tmp_path, settings), capsys)[0] == 0


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"security.protocol": "TLS"}, "security.protocol is PLAINTEXT or SSL or SASL_PLAINTEXT or SASL_SSL, not TLS"),
        (
            {"security.protocol": "SASL_PLAINTEXT"},
            "sasl.mechanism is PLAIN or SCRAM-SHA-256 or SCRAM-SHA-512, not left",
        ),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "SCRAM-SHA-512, not GSSAPI"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, 'needs username="…" and password="…"'),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/nowhere.pem"}, "no such file or directory"),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "x", "ssl.truststore.type": "JKS"},
            "ssl.truststore.type is JKS: only PEM is read here",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.certificates": "sécret"},
            "a certificate or key is not PEM, or its password is too long",
        ),
        ({"security.protocol": "SSL", "ssl.truststore.certificates": "secret"}, "or its password is wrong"),
    ],
)
def test_settings_of_no_use_are_refused(tmp_path: Path, settings: Mapping[str, str], why: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_security(written(tmp_path, settings))
    assert why in str(refused.value)
    assert str(refused.value).startswith(str(tmp_path))
    assert "cret" not in str(refused.value)
    assert "None" not in str(refused.value)


def test_a_password_that_is_no_text_is_refused_without_showing_it(tmp_path: Path) -> None:
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}
    file = written(tmp_path, settings)
    with Path(file).open("a") as more:
        more.write("sasl.password=secret\\ud800\n")
    with pytest.raises(SettingsError) as refused:
        read_security(file)
    assert "has half of a surrogate pair" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_file_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = listed("/Nowhere.properties", capsys)
    assert (code, out) == (2, "purgatorio: /Nowhere.properties: no such file or directory\n")


def test_settings_without_security_connect_plainly(tmp_path: Path) -> None:
    found = read_security(written(tmp_path, {"bootstrap.servers": "a:1,b", "acks": "all"}))
    assert (found.tls, found.login, found.bootstrap) == (None, None, "a:1,b")
    settings = {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "PLAIN", "sasl.jaas.config": PLAIN}
    assert read_security(written(tmp_path, settings)).login is not None
