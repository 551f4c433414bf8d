"""Throw-away certificates for tests and trials: an authority that is forgotten at once, and what it signed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
_NO_HOST: Final = "client.invalid"
"""A certificate has the name of a host at least; no client may be taken for one."""


class CertificatesUnavailable(RuntimeError):
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


class ThrowAwayAuthority:
    """An authority that lives as long as this object; what it signs can be read from its folder.

    Args:
        folder: is made if it is not there.

    Raises:
        CertificatesUnavailable: the extra `security` is not installed, or the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        try:
            import trustme
        except ModuleNotFoundError:
            from purgatorio import extras

            raise CertificatesUnavailable(f"certificates need an extra: {extras.install('security')}") from None
        self._authority = trustme.CA(organization_name="Purgatorio", organization_unit_name="throw-away")
        self._folder = folder
        self.certificate = folder / "ca.pem"
        with _writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._authority.cert_pem.write_to_path(str(self.certificate))

    def issue(self, name: str, *hosts: str) -> Path:
        """Return a keystore for the common name `name` and these names and addresses of hosts."""
        leaf = self._authority.issue_cert(*(hosts or (_NO_HOST,)), common_name=name)
        path = self._folder / f"{name}.pem"
        with _writing(self._folder):
            path.touch(mode=0o600)
            path.write_bytes(
                b"".join([_pkcs8(leaf.private_key_pem.bytes()), *(c.bytes() for c in leaf.cert_chain_pems)])
            )
        return path


def _pkcs8(key_pem: bytes) -> bytes:
    """Return a private key in the one form that Java reads from a PEM keystore (KIP-651)."""
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(key_pem, password=None)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CertificatesUnavailable(f"cannot write certificates to {folder}: {error.strerror}") from None


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
    authority = ThrowAwayAuthority(folder)
    names = dict.fromkeys([*hosts, *LOCAL_HOSTS])
    return CertificateFiles(authority.certificate, authority.issue("broker", *names), authority.issue("client"))
