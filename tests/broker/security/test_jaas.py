"""Users in settings: in Kafka's form, and in the short one."""

from __future__ import annotations

import pytest

from purgatorio.broker.security.jaas import PLAIN_MODULE, listed_users, plain_users


@pytest.mark.parametrize(
    ("options", "users"),
    [
        ('user_alice="alice-secret";', {"alice": "alice-secret"}),
        (
            r'username="admin" password="a;\"b" user_admin="a;\"b" user_b.o-b=plain ;',
            {"admin": 'a;"b', "b.o-b": "plain"},
        ),
        ('\\\n  user_alice=""\n;\n'.replace("\\\n", "\n"), {"alice": ""}),
        ("", {}),
    ],
)
def test_users_of_a_login_module(options: str, users: dict[str, str]) -> None:
    """Quoted or not; the name and password of the broker itself are no user's."""
    assert plain_users(f"{PLAIN_MODULE} required {options}") == users


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret",
        f"{PLAIN_MODULE} user_alice=secret;",
        f"{PLAIN_MODULE} required secret;",
        f'{PLAIN_MODULE} required user_alice="secret;',
        "org.apache.kafka.common.security.scram.ScramLoginModule required user_alice=secret;",
    ],
)
def test_other_texts_are_refused_and_not_repeated(text: str) -> None:
    """They hold passwords, and errors come into logs."""
    with pytest.raises(ValueError, match=r"sasl\.jaas\.config") as refused:
        plain_users(text)
    assert "=secret" not in str(refused.value)


def test_listed_users() -> None:
    """A password may hold equals signs."""
    assert listed_users("alice=a=b, bob=c") == {"alice": "a=b", "bob": "c"}
    for text in ("alice", "alice=", "=secret", "alice=a,alice=secret", "alice=secret,"):
        with pytest.raises(ValueError, match=r"sasl\.users must look like") as refused:
            listed_users(text)
        assert "=secret" not in str(refused.value)
