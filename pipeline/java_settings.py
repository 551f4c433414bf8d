"""Settings of Kafka's Java client, as jobs that were written for Spark's Kafka connector have them, for librdkafka.

Many names are the same. Some settings have another name, a login is written in JAAS there, and some have nothing here
that does their work: those are refused, with what does it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Final

_RENAMED: Final = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.enabled.protocols": "",
    "ssl.protocol": "",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
"""The client's name of each; "" where the client agrees on the same by itself."""
_BINARY: Final = "the columns key and value are binary or strings, and are cast in SQL"
_JAVA_CLASS: Final = "it names a class of the Java client, and the client here is librdkafka"
_REFUSED: Final = {
    "auto.offset.reset": "say startingOffsets instead",
    "buffer.memory": "say kafka.queue.buffering.max.kbytes instead",
    "default.api.timeout.ms": "say kafka.socket.timeout.ms instead",
    "enable.auto.commit": "the data source keeps positions itself",
    "enable.partition.eof": "the data source needs it",
    "group.id": "consumers are assigned partitions, and join no group",
    "interceptor.classes": _JAVA_CLASS,
    "key.deserializer": _BINARY,
    "key.serializer": _BINARY,
    "max.block.ms": "say kafka.message.timeout.ms instead",
    "max.poll.records": "say maxOffsetsPerTrigger or maxRecordsPerPartition instead",
    "metric.reporters": _JAVA_CLASS,
    "partition.assignment.strategy": "consumers are assigned partitions, and join no group",
    "partitioner.class": "say kafka.partitioner instead; murmur2_random is that of Java",
    "sasl.client.callback.handler.class": _JAVA_CLASS,
    "sasl.login.callback.handler.class": "say kafka.sasl.oauthbearer.method=oidc and its settings instead",
    "security.providers": _JAVA_CLASS,
    "ssl.truststore.location": "say kafka.ssl.ca.location instead, a PEM file",
    "ssl.truststore.password": "say kafka.ssl.ca.location instead, a PEM file, which has no password",
    "value.deserializer": _BINARY,
    "value.serializer": _BINARY,
}
_OFTEN_SET: Final = [
    "acks",
    "batch.size",
    "client.dns.lookup",
    "client.id",
    "client.rack",
    "compression.level",
    "compression.type",
    "connections.max.idle.ms",
    "debug",
    "delivery.timeout.ms",
    "enable.idempotence",
    "enable.ssl.certificate.verification",
    "fetch.max.bytes",
    "fetch.min.bytes",
    "fetch.wait.max.ms",
    "isolation.level",
    "linger.ms",
    "max.in.flight.requests.per.connection",
    "max.partition.fetch.bytes",
    "message.max.bytes",
    "message.timeout.ms",
    "metadata.max.age.ms",
    "partitioner",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retries",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "sasl.kerberos.keytab",
    "sasl.kerberos.principal",
    "sasl.kerberos.service.name",
    "sasl.mechanism",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "socket.connection.setup.timeout.ms",
    "socket.keepalive.enable",
    "socket.timeout.ms",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.cipher.suites",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "transaction.timeout.ms",
]
"""Settings of librdkafka that jobs set: its Python client lists none, and a misspelt one is like one of these."""
_JAAS: Final = "sasl.jaas.config"
_TRUSTSTORE: Final = "ssl.truststore"
_KEYSTORE: Final = "ssl.keystore"
_MODULE: Final = re.compile(
    r"\s*(?:[\w$]+\.)*(\w+)\s+(?:required|requisite|sufficient|optional)\b(.*?);?\s*", re.DOTALL
)
_PAIR: Final = re.compile(r"""\s*(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s"';]+)""", re.DOTALL)


class SettingRefused(ValueError):
    """The client has no such setting, or not with this value; the message says what to set instead."""


def near(setting: str) -> str:
    """Return the setting that is most like an unknown one, one of Java's too; "" if none is."""
    known = (*_OFTEN_SET, *_RENAMED, *_REFUSED, _JAAS)
    return "".join(difflib.get_close_matches(setting.lower(), known, n=1, cutoff=0.8))


def for_librdkafka(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings as librdkafka has them; names are in lower case.

    Raises:
        SettingRefused: nothing here does what a setting does, or a login is not understood.
    """
    left = dict(settings)
    taken: dict[str, str] = {}
    _stores(left, taken)
    if (jaas := left.pop(_JAAS, None)) is not None:
        taken.update(_login(jaas, left))
    if left.get("ssl.endpoint.identification.algorithm") == "":
        left["ssl.endpoint.identification.algorithm"] = "none"
    for name, value in left.items():
        if name in _REFUSED:
            raise SettingRefused(f"kafka.{name} cannot be set: {_REFUSED[name]}")
        if renamed := _RENAMED.get(name, name):
            taken[renamed] = value
    return taken


def _stores(left: dict[str, str], taken: dict[str, str]) -> None:
    """Take stores of keys and certificates in PEM; librdkafka reads PKCS #12 too, for its own key."""
    if left.get(f"{_TRUSTSTORE}.type", "").upper() == "PEM":
        if (location := left.pop(f"{_TRUSTSTORE}.location", None)) is not None:
            taken["ssl.ca.location"] = location
    elif (kind := left.get(f"{_TRUSTSTORE}.type")) is not None:
        raise SettingRefused(f"kafka.{_TRUSTSTORE}.type cannot be {kind}: say kafka.ssl.ca.location, a PEM file")
    left.pop(f"{_TRUSTSTORE}.type", None)
    kind = left.pop(f"{_KEYSTORE}.type", "PKCS12").upper()
    if kind == "PEM":
        if (location := left.pop(f"{_KEYSTORE}.location", None)) is not None:
            taken["ssl.certificate.location"] = taken["ssl.key.location"] = location
    elif kind != "PKCS12":
        raise SettingRefused(
            f"kafka.{_KEYSTORE}.type cannot be {kind}: say kafka.ssl.certificate.location and kafka.ssl.key.location, "
            "PEM files, or give a store in PKCS12"
        )


def _login(jaas: str, left: Mapping[str, str]) -> dict[str, str]:
    """Read user and password of a login module. No message repeats the text, which has a password."""
    found = _MODULE.fullmatch(jaas)
    if found is None:
        raise SettingRefused(
            f'kafka.{_JAAS} is not understood: it has the form org…PlainLoginModule required username="…" password="…";'
        )
    module, given = found[1], dict(_PAIR.findall(found[2]))
    if module not in ("PlainLoginModule", "ScramLoginModule"):
        raise SettingRefused(
            f"kafka.{_JAAS} cannot have {module}: PlainLoginModule and ScramLoginModule are understood; for others "
            "set the kafka.sasl.… settings of librdkafka"
        )
    if "username" not in given or "password" not in given:
        raise SettingRefused(f"kafka.{_JAAS} needs username and password")
    if "sasl.username" in left or "sasl.password" in left:
        raise SettingRefused(f"kafka.{_JAAS} and kafka.sasl.username contradict each other: give one")
    login = {"sasl.username": _unquoted(given["username"]), "sasl.password": _unquoted(given["password"])}
    if "sasl.mechanism" not in left and "sasl.mechanisms" not in left:
        if module == "ScramLoginModule":
            raise SettingRefused(f"kafka.{_JAAS} has ScramLoginModule: say kafka.sasl.mechanism, such as SCRAM-SHA-256")
        login["sasl.mechanism"] = "PLAIN"
    return login


def _unquoted(value: str) -> str:
    if value[0] in "\"'":
        value = value[1:-1]
    return re.sub(r"\\(.)", r"\1", value)
