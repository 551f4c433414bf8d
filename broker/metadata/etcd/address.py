"""Where an etcd is, as the setting `store` says it."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

SCHEMES: Final = {"etcd": "http", "etcds": "https"}
DEFAULT_PREFIX: Final = "purgatorio"
DEFAULT_PORT: Final = 2379


class EtcdAddress(NamedTuple):
    """The members of an etcd cluster, and the keys there that are ours.

    Attributes:
        endpoints: the URLs of the members, in the order in which they are tried.
        prefix: what all keys of this cluster begin with, without the slash behind it.
        user: the user name for etcd; None: etcd requires none.
        ca_file: a file with the certificates that may have signed etcd's; None: those that this machine trusts.
    """

    endpoints: tuple[str, ...]
    prefix: str
    user: str | None = None
    password: str = ""
    ca_file: str | None = None

    @classmethod
    def parse(cls, text: str) -> EtcdAddress:
        """Return the address that ``etcd://user:password@host:2379,host2:2379/prefix`` says; ``etcds`` is with TLS.

        Raises:
            ValueError: it says none; the message says why.
        """
        parts = urlsplit(text)
        scheme = SCHEMES.get(parts.scheme)
        if scheme is None:
            raise ValueError(f"{text!r} is no address of a store: it begins with etcd:// or, for TLS, etcds://")
        login, _, hosts = parts.netloc.rpartition("@")
        user, _, password = login.partition(":")
        if not hosts or not all(hosts.split(",")):
            raise ValueError(f"{parts.scheme}://{hosts} names no host, as etcd://10.0.0.1:2379,10.0.0.2:2379 does")
        ca_file = parse_qs(parts.query).get("ca", [None])[-1]
        endpoints = tuple(
            f"{scheme}://{host if _has_port(host) else f'{host}:{DEFAULT_PORT}'}" for host in hosts.split(",")
        )
        prefix = parts.path.strip("/") or DEFAULT_PREFIX
        return cls(endpoints, prefix, unquote(user) or None, unquote(password), ca_file)

    def __str__(self) -> str:
        """The address without the password."""
        return f"{', '.join(self.endpoints)} (prefix {self.prefix})"


def _has_port(host: str) -> bool:
    try:
        return urlsplit(f"//{host}").port is not None
    except ValueError:
        raise ValueError(f"{host} has a port that is none") from None
