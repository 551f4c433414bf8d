"""Settings of Kafka's Java client: taken under librdkafka's names, or refused with what to set instead."""

from __future__ import annotations

import pytest

from purgatorio.pipeline.java_settings import SettingRefused, for_librdkafka, near

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"client.rack": "b"}, {"client.rack": "b"}),
        ({"fetch.max.wait.ms": "50"}, {"fetch.wait.max.ms": "50"}),
        ({"ssl.enabled.protocols": "TLSv1.3"}, {}),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "ca.pem"},
            {"ssl.ca.location": "ca.pem"},
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": "me.pem"},
            {"ssl.certificate.location": "me.pem", "ssl.key.location": "me.pem"},
        ),
        (
            {"ssl.keystore.type": "pkcs12", "ssl.keystore.location": "me.p12", "ssl.keystore.password": "x"},
            {"ssl.keystore.location": "me.p12", "ssl.keystore.password": "x"},
        ),
        (
            {"sasl.jaas.config": f'{PLAIN} required username="alice" password="se;cr\\"et";'},
            {"sasl.username": "alice", "sasl.password": 'se;cr"et', "sasl.mechanism": "PLAIN"},
        ),
        (
            {
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": f"  {SCRAM} required\n  username='alice'\n  password=secret ;\n",
            },
            {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "alice", "sasl.password": "secret"},
        ),
        (
            {"sasl.jaas.config": 'shaded.x.PlainLoginModule required username="$Connection" password="="'},
            {"sasl.username": "$Connection", "sasl.password": "=", "sasl.mechanism": "PLAIN"},
        ),
    ],
)
def test_what_librdkafka_can_do_is_taken(given: dict[str, str], taken: dict[str, str]) -> None:
    assert for_librdkafka(given) == taken


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"max.poll.records": "5"}, "kafka.max.poll.records cannot be set: say maxOffsetsPerTrigger"),
        ({"value.deserializer": "x"}, "kafka.value.deserializer cannot be set: the columns key and value are binary"),
        ({"ssl.truststore.location": "a.jks"}, "say kafka.ssl.ca.location instead, a PEM file"),
        ({"ssl.truststore.type": "JKS"}, "kafka.ssl.truststore.type cannot be JKS"),
        ({"ssl.keystore.type": "JKS"}, "kafka.ssl.keystore.type cannot be JKS"),
        ({"sasl.jaas.config": "secret"}, "kafka.sasl.jaas.config is not understood"),
        ({"sasl.jaas.config": "a.b.OAuthBearerLoginModule required ;"}, "cannot have OAuthBearerLoginModule"),
        ({"sasl.jaas.config": f'{PLAIN} required username="secret";'}, "needs username and password"),
        ({"sasl.jaas.config": f"{SCRAM} required username=a password=secret;"}, "say kafka.sasl.mechanism"),
        (
            {"sasl.jaas.config": f"{PLAIN} required username=a password=secret;", "sasl.username": "b"},
            "contradict each other",
        ),
    ],
)
def test_the_refusal_names_the_setting_and_no_secret(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(SettingRefused) as told:
        for_librdkafka(given)
    assert complaint in str(told.value)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    ("setting", "found"),
    [
        ("securty.protocol", "security.protocol"),
        ("sasl.mechansim", "sasl.mechanism"),
        ("ssl.truststore.locaton", "ssl.truststore.location"),
        ("max.poll.recordz", "max.poll.records"),
        ("no.such.thing", ""),
    ],
)
def test_a_misspelt_setting_is_like_one_that_there_is(setting: str, found: str) -> None:
    assert near(setting) == found
