"""Throw-away certificates on the command line."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from purgatorio.admin.cli.certificates import certificates_for, client_settings
from purgatorio.broker.config import BrokerConfig, ClusterConfig
from purgatorio.broker.config.listeners import SecurityProtocol, listener_configs
from purgatorio.broker.metadata.image import Endpoint
from purgatorio.broker.security.throw_away import CertificatesUnavailable


def test_certificates_are_kept_where_the_user_says_and_used_again(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    with certificates_for(ClusterConfig(host="127.0.0.2", port=9192), str(folder)) as (config, files):
        assert files is not None
        assert config.broker.listeners == "SSL://127.0.0.2:9192"
        made = files.broker.read_bytes()
    with certificates_for(ClusterConfig(), str(folder)) as (_, again):
        assert again == files
    assert files.broker.read_bytes() == made
    assert files.broker.stat().st_mode & 0o077 == 0, "nobody else reads a private key"


def test_without_a_folder_they_go_with_the_cluster() -> None:
    with certificates_for(ClusterConfig(), "") as (config, files):
        assert files is not None
        ssl.create_default_context(cafile=str(files.authority))
        assert all(each.protocol.has_tls for each in listener_configs(config.broker_configs()[0]))
    assert not files.authority.exists()


@pytest.mark.parametrize(
    ("listeners", "protocols", "secured"),
    [
        ("A://:1,B://:2", "A:PLAINTEXT,B:SASL_PLAINTEXT", [("A", "SSL"), ("B", "SASL_SSL")]),
        ("SASL_PLAINTEXT://:1,A://:2", "A:PLAINTEXT", [("SASL_SSL", "SASL_SSL"), ("A", "SSL")]),
        ("PLAINTEXT://:1,SSL://:2", None, [("PLAINTEXT", "PLAINTEXT"), ("SSL", "SSL")]),
    ],
)
def test_all_listeners_speak_tls_if_none_does(
    listeners: str, protocols: str | None, secured: list[tuple[str, str]]
) -> None:
    given = BrokerConfig(
        listeners=listeners,
        advertised_listeners=listeners.replace("//", "//me"),
        listener_security_protocol_map=protocols,
    )
    with certificates_for(ClusterConfig(brokers=1, broker=given), "") as (config, _):
        found = listener_configs(config.broker_configs()[0])
        assert [(each.name, str(each.protocol)) for each in found] == secured
        assert all(each.advertised and each.advertised[0] == "me" for each in found)


def test_a_cluster_without_the_flag_has_none() -> None:
    config = ClusterConfig()
    with certificates_for(config, None) as (same, files):
        assert same is config
        assert files is None


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(CertificatesUnavailable, match=r"cannot write certificates to .*file"),
        certificates_for(ClusterConfig(), str(tmp_path / "file")),
    ):
        pass


@pytest.mark.parametrize("protocol", [SecurityProtocol.SSL, SecurityProtocol.SASL_SSL])
def test_each_client_gets_its_settings(protocol: SecurityProtocol) -> None:
    with certificates_for(ClusterConfig(), "") as (_, files):
        assert files is not None
        text = "\n".join(client_settings(Endpoint("X", "127.0.0.1", 9092), protocol, files))
    for client in ("kcat -b 127.0.0.1:9092 -X", "librdkafka", "aiokafka", "kafka-python", "Java", "kafkajs"):
        assert client in text
    assert text.count(str(files.authority)) >= 6
    assert text.count(f"security.protocol={protocol}") == 2
    assert ("SCRAM-SHA-512" in text) == protocol.has_sasl
    assert ("Make the user first" in text) == protocol.has_sasl


def test_a_user_of_the_settings_is_shown_and_need_not_be_made() -> None:
    with certificates_for(ClusterConfig(), "") as (_, files):
        assert files is not None
        text = "\n".join(client_settings(Endpoint("X", "h", 1), SecurityProtocol.SASL_SSL, files, ["a b", "bob"]))
    assert text.endswith("The password of bob is the one in sasl.users.")
    assert "sasl.username=bob" in text
    assert "alice" not in text.replace(str(files.authority), "")
