"""PLAIN: what is accepted, and that everything else is refused in one way."""

from __future__ import annotations

import pytest

from purgatorio.broker.security.mechanism import AuthenticationFailed, Identity, SaslStep
from purgatorio.broker.security.plain import PLAIN_MODULE, Plain, listed_users, plain_users

PASSWORDS = {"alice": "alice-secret", "zoë,=\x01": "pässwörd", "empty": ""}


def _step(token: bytes) -> SaslStep:
    return Plain(PASSWORDS).begin().step(token)


@pytest.mark.parametrize("acting_as", ["", "alice"])
def test_the_right_password_gives_the_name(acting_as: str) -> None:
    """With no authorization id, or the name again."""
    assert _step(f"{acting_as}\0alice\0alice-secret".encode()) == SaslStep(b"", Identity("alice"))


def test_names_and_passwords_may_have_any_characters() -> None:
    """As UTF-8, without preparation."""
    assert _step("\0zoë,=\x01\0pässwörd".encode()).identity == Identity("zoë,=\x01")


@pytest.mark.parametrize(
    "token",
    [
        b"\0alice\0wrong",
        b"\0alice\0alice-secre",
        b"\0mallory\0alice-secret",
        b"\0empty\0",
        b"\0\0alice-secret",
        b"bob\0alice\0alice-secret",
        b"alice\0alice-secret",
        b"\0alice\0alice-secret\0",
        b"\0alice\0\xff",
        b"",
    ],
)
def test_everything_else_is_refused(token: bytes) -> None:
    """Wrong and unknown, nothing in a field, another's name, a NUL too few or too many, no UTF-8."""
    with pytest.raises(AuthenticationFailed):
        _step(token)


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
