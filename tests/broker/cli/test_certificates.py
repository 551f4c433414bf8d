"""Throw-away certificates on the command line."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from purgatorio.broker.cli.certificates import certificates_for, client_settings
from purgatorio.broker.config import BrokerConfig, ClusterConfig
from purgatorio.broker.config.listeners import listener_configs
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


def test_listeners_that_the_user_has_named_keep_their_names() -> None:
    listeners = BrokerConfig(
        listeners="A://:9192,B://:9292", listener_security_protocol_map="A:PLAINTEXT,B:SASL_PLAINTEXT"
    )
    with certificates_for(ClusterConfig(broker=listeners), "") as (config, _):
        found = listener_configs(config.broker_configs()[0])
        assert [(each.name, str(each.protocol)) for each in found] == [("A", "SSL"), ("B", "SASL_SSL")]


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


def test_each_client_gets_its_settings() -> None:
    with certificates_for(ClusterConfig(), "") as (_, files):
        assert files is not None
        text = "\n".join(client_settings("127.0.0.1:9092,127.0.0.1:9093", files))
    for client in ("kcat -b 127.0.0.1:9092 -X", "librdkafka", "aiokafka", "kafka-python", "Java", "kafkajs"):
        assert client in text
    assert str(files.authority) in text
