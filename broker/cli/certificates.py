"""Throw-away certificates of `--tls`, and what clients need to trust them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.config.throw_away_tls import with_throw_away_tls
from purgatorio.broker.security.throw_away import CertificateFiles


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
        yield with_throw_away_tls(config, Path(folder).resolve())
    else:
        with tempfile.TemporaryDirectory(prefix="purgatorio-tls-") as temporary:
            yield with_throw_away_tls(config, Path(temporary))


def client_settings(bootstrap: str, files: CertificateFiles) -> list[str]:
    """Return lines with the settings of each client, ready to paste."""
    first, authority = bootstrap.partition(",")[0], files.authority
    return [
        "Clients speak TLS, and need this authority's certificate:",
        f"  {authority}",
        "",
        f"  kcat            kcat -b {first} -X security.protocol=SSL -X ssl.ca.location={authority} -L",
        f'  librdkafka      {{"security.protocol": "SSL", "ssl.ca.location": "{authority}"}}',
        f'  aiokafka        security_protocol="SSL", ssl_context=ssl.create_default_context(cafile="{authority}")',
        f'  kafka-python    security_protocol="SSL", ssl_cafile="{authority}"',
        f"  Java            security.protocol=SSL  ssl.truststore.type=PEM  ssl.truststore.location={authority}",
        f'  kafkajs         ssl: {{ ca: [fs.readFileSync("{authority}")] }}',
        "",
        f"A client may show a certificate, e.g. that of {files.client}, which is named",
        '"CN=client,…" then; the listener setting ssl.principal.mapping.rules makes shorter names.',
    ]
