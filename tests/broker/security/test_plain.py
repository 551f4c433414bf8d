"""PLAIN: what is accepted, and that everything else is refused in one way."""

from __future__ import annotations

import pytest

from purgatorio.broker.security.mechanism import AuthenticationFailed, Identity, Step
from purgatorio.broker.security.plain import Plain

PASSWORDS = {"alice": "alice-secret", "zoë,=\x01": "pässwörd", "empty": ""}


def _step(token: bytes) -> Step:
    return Plain(PASSWORDS).begin().step(token)


@pytest.mark.parametrize("acting_as", ["", "alice"])
def test_the_right_password_gives_the_name(acting_as: str) -> None:
    """With no authorization id, or the name again."""
    assert _step(f"{acting_as}\0alice\0alice-secret".encode()) == Step(b"", Identity("alice"))


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
