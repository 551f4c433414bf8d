"""Where an etcd is, as users write it."""

from __future__ import annotations

import pytest

from purgatorio.broker.metadata.etcd.address import EtcdAddress


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("etcd://10.0.0.1", EtcdAddress(("http://10.0.0.1:2379",), "purgatorio")),
        ("etcd://a:1,b,[::1]:3/x/y/", EtcdAddress(("http://a:1", "http://b:2379", "http://[::1]:3"), "x/y")),
        ("etcd://me:p%40ss@a", EtcdAddress(("http://a:2379",), "purgatorio", "me", "p@ss")),
        ("etcds://a/?ca=/etc/ca.pem", EtcdAddress(("https://a:2379",), "purgatorio", None, "", "/etc/ca.pem")),
    ],
)
def test_an_address_is_understood(text: str, address: EtcdAddress) -> None:
    assert EtcdAddress.parse(text) == address


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("10.0.0.1:2379", "is no address of a store: it begins with etcd:// or, for TLS, etcds://"),
        ("http://a", "is no address of a store"),
        ("etcd:///prefix", "names no host"),
        ("etcd://a,,b", "names no host"),
        ("etcd://a:port", "a:port has a port that is none"),
    ],
)
def test_what_is_no_address_is_refused_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        EtcdAddress.parse(text)


def test_an_address_tells_no_password() -> None:
    assert "secret" not in str(EtcdAddress.parse("etcd://me:secret@a"))
