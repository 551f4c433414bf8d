"""Certificates for tests."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import trustme


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
