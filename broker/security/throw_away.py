"""Throw-away certificates for tests and trials: an authority that is forgotten at once, and what it signed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class CertificatesUnavailable(Exception):
    """No certificates can be made; the text says what to install, or which file is in the way."""


class CertificateFiles(NamedTuple):
    """PEM files: the authority's certificate, and keys with the certificates that it signed.

    Attributes:
        authority: what clients and brokers trust.
        broker: the brokers' keystore.
        client: a client's keystore; its distinguished name has CN=client.
    """

    authority: Path
    broker: Path
    client: Path


def throw_away_certificates(folder: Path, hosts: Iterable[str]) -> CertificateFiles:
    """Make certificates in a folder, or return those that are there already.

    Args:
        hosts: the names and addresses that clients connect to.

    Raises:
        CertificatesUnavailable: the extra `security` is not installed, or the folder cannot be written.
    """
    files = CertificateFiles(folder / "ca.pem", folder / "broker.pem", folder / "client.pem")
    if all(each.exists() for each in files):
        return files
    try:
        import trustme
    except ModuleNotFoundError:
        raise CertificatesUnavailable("certificates need an extra: pip install 'purgatorio[security]'") from None
    authority = trustme.CA(organization_name="Purgatorio", organization_unit_name="throw-away")
    names = dict.fromkeys([*hosts, "localhost", "127.0.0.1", "::1"])
    broker = authority.issue_cert(*names, common_name="broker")
    client = authority.issue_cert("client.invalid", common_name="client")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for leaf, path in ((broker, files.broker), (client, files.client)):
            path.touch(mode=0o600)
            leaf.private_key_and_cert_chain_pem.write_to_path(str(path))
        authority.cert_pem.write_to_path(str(files.authority))
    except OSError as error:
        raise CertificatesUnavailable(f"cannot write certificates to {folder}: {error.strerror}") from None
    return files
