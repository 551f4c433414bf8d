"""Throw-away certificates of `--tls`, and what clients need to trust them."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.config.address_settings import WILDCARD_HOSTS
from purgatorio.broker.config.listeners import ListenerAddress, SecurityProtocol, listener_configs, parse_addresses
from purgatorio.broker.metadata.image import Endpoint
from purgatorio.broker.security.throw_away import CertificateFiles, throw_away_certificates

USER: Final = "alice"
MECHANISM: Final = "SCRAM-SHA-512"
_LOGIN_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_WITH_TLS: Final[dict[str, SecurityProtocol]] = {
    SecurityProtocol.PLAINTEXT: SecurityProtocol.SSL,
    SecurityProtocol.SASL_PLAINTEXT: SecurityProtocol.SASL_SSL,
}


@contextmanager
def certificates_for(
    config: ClusterConfig, folder: str | None
) -> Iterator[tuple[ClusterConfig, CertificateFiles | None]]:
    """Give a cluster throw-away certificates.

    Args:
        folder: where they are kept; "": in a temporary folder that is removed at the end; None: there are none.

    Raises:
        CertificatesUnavailable: they cannot be made.
    """
    if folder is None:
        yield config, None
    elif folder:
        yield _with_certificates(config, Path(folder).resolve())
    else:
        with tempfile.TemporaryDirectory(prefix="purgatorio-tls-") as temporary:
            yield _with_certificates(config, Path(temporary))


def _with_certificates(config: ClusterConfig, folder: Path) -> tuple[ClusterConfig, CertificateFiles]:
    """Return the settings with certificates in `folder`, which are made if they are not there.

    Without the setting `listeners` the one listener becomes SSL; if none of those that are set speaks TLS, all do.
    Clients may show a certificate.

    Raises:
        CertificatesUnavailable: see `throw_away_certificates`.
    """
    listeners = listener_configs(config.broker_configs()[0])
    hosts = {each.host for each in listeners} | {each.advertised[0] for each in listeners if each.advertised}
    files = throw_away_certificates(folder, sorted(hosts - WILDCARD_HOSTS))
    update = {
        "ssl_keystore_location": str(files.broker),
        "ssl_truststore_location": str(files.authority),
        "ssl_client_auth": "requested",
    }
    if not any(each.protocol.has_tls for each in listeners):
        update |= _all_with_tls(config)
    return config.model_copy(update={"broker": config.broker.model_copy(update=update)}), files


def _all_with_tls(config: ClusterConfig) -> dict[str, str]:
    """Return settings by which all listeners speak TLS. One that is named after its protocol changes its name, too."""
    broker = config.broker
    if broker.listeners is None:
        return {"listeners": str(ListenerAddress(SecurityProtocol.SSL, config.host, config.port))}
    update = {
        name: ",".join(
            str(each._replace(name=_WITH_TLS.get(each.name, each.name))) for each in parse_addresses(name, text)
        )
        for name, text in (("listeners", broker.listeners), ("advertised_listeners", broker.advertised_listeners))
        if text is not None
    }
    named = [each for each in listener_configs(broker) if each.name not in _WITH_TLS]
    if named:
        update["listener_security_protocol_map"] = ",".join(f"{each.name}:{_WITH_TLS[each.protocol]}" for each in named)
    return update


def client_settings(
    endpoint: Endpoint, protocol: SecurityProtocol, files: CertificateFiles, users: Sequence[str] = ()
) -> list[str]:
    """Return lines with the settings of each client for a listener with TLS, ready to paste.

    Args:
        users: those of the setting sasl.users, of which the first is shown as an example.
    """
    first, authority, sasl = f"{endpoint.host}:{endpoint.port}", files.authority, protocol.has_sasl
    known = next((each for each in users if re.fullmatch(r"[\w.@-]+", each)), None)
    user = known or USER
    with_sasl = {"sasl.mechanism": MECHANISM, "sasl.username": user, "sasl.password": "…"} if sasl else {}
    confluent = {"security.protocol": str(protocol), "ssl.ca.location": str(authority)} | with_sasl
    kcat = " ".join(f"-X {name}={value}" for name, value in confluent.items())
    java = {"security.protocol": str(protocol), "ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority)}
    python, kafkajs = f'security_protocol="{protocol}", ', ""
    if sasl:
        jaas = f"{_LOGIN_MODULE} required username={user} password=…;"
        java |= {"sasl.mechanism": MECHANISM, "sasl.jaas.config": jaas}
        python += f'sasl_mechanism="{MECHANISM}", sasl_plain_username="{user}", sasl_plain_password="…", '
        kafkajs = f', sasl: {{ mechanism: "{MECHANISM.lower()}", username: "{user}", password: "…" }}'
    lines = [
        "Clients speak TLS, and need this authority's certificate:",
        f"  {authority}",
        "",
        f"  kcat            kcat -b {first} {kcat} -L",
        f"  librdkafka      {json.dumps(confluent, ensure_ascii=False)}",
        f'  aiokafka        {python}ssl_context=ssl.create_default_context(cafile="{authority}")',
        f'  kafka-python    {python}ssl_cafile="{authority}"',
        f"  Java            {'  '.join(f'{name}={value}' for name, value in java.items())}",
        f'  kafkajs         ssl: {{ ca: [fs.readFileSync("{authority}")] }}{kafkajs}',
        "",
    ]
    if sasl and known is not None:
        return [*lines, f"The password of {user} is the one in sasl.users."]
    if sasl:
        return [*lines, f"Make the user first: purgatorio users add {USER} --mechanism {MECHANISM}"]
    return [
        *lines,
        f"A client may show a certificate, e.g. that of {files.client}, which is named",
        '"CN=client,…" then; the listener setting ssl.principal.mapping.rules makes shorter names.',
    ]
