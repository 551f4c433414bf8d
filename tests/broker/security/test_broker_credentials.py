"""Brokers know each other by a secret."""

from __future__ import annotations

import pytest

from purgatorio.broker.security.broker_credentials import BrokerCredentials
from purgatorio.broker.security.mechanism import AuthenticationFailed

OURS = BrokerCredentials(b"a secret")


def test_a_broker_of_the_cluster_is_known_by_its_id_and_is_no_user() -> None:
    identity = OURS.begin().step(OURS.token(3)).identity
    assert identity is not None
    assert (identity.type, identity.name) == ("Broker", "3")


@pytest.mark.parametrize(
    "token",
    [
        BrokerCredentials(b"another").token(3),
        OURS.token(3).replace(b"3\0", b"1\0"),
        b"3",
        b"3\0",
        b"",
        b"\xff\0\xff",
    ],
)
def test_nobody_else_is_a_broker(token: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        OURS.begin().step(token)
