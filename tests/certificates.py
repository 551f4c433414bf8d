"""Certificates for tests."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import NamedTuple

import trustme

LAST_YEAR = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=365)


class Certificates(NamedTuple):
    """Files in PEM: an authority, and keys with certificates that it signed."""

    authority: Path
    broker: Path
    alice: Path


def make_certificates(folder: Path) -> Certificates:
    """Make an authority, a broker at localhost, and the client alice."""
    authority = trustme.CA()
    files = Certificates(folder / "ca.pem", folder / "broker.pem", folder / "alice.pem")
    authority.cert_pem.write_to_path(str(files.authority))
    broker = authority.issue_cert("localhost", "127.0.0.1")
    broker.private_key_and_cert_chain_pem.write_to_path(str(files.broker))
    alice = authority.issue_cert("alice@example.org", common_name="alice", organization_name="Sales, North")
    alice.private_key_and_cert_chain_pem.write_to_path(str(files.alice))
    return files


class BrokerAuthority:
    """An authority of brokers alone, and what it signed: files in PEM.

    Args:
        folder: is made.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._signs = trustme.CA()
        self.certificate = folder / "ca.pem"
        self._signs.cert_pem.write_to_path(str(self.certificate))

    def issue(self, name: str, *, host: str = "127.0.0.1", not_after: datetime.datetime | None = None) -> Path:
        """Return a new keystore."""
        path = self._folder / f"{name}.pem"
        issued = self._signs.issue_cert(host, not_after=not_after)
        issued.private_key_and_cert_chain_pem.write_to_path(str(path))
        return path
