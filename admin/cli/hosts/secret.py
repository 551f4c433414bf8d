"""The secret by which the brokers of a cluster on several hosts know each other: a file that each of them has."""

from __future__ import annotations

from pathlib import Path
from typing import Final

MIN_SECRET_BYTES: Final = 16
MAX_SECRET_BYTES: Final = 4096


class SecretUnusable(Exception):
    """The file is missing, or what it has is no secret; the message says what to do."""


def read_secret(path: str | None) -> bytes:
    """Return what the file has, without white space around it.

    Raises:
        SecretUnusable: it cannot be read, or is too short to be a secret.
    """
    remedy = "make one with `openssl rand -hex 32`, and give every broker of the cluster the same"
    if path is None:
        raise SecretUnusable(
            f"brokers on several hosts know each other by a secret: set cluster.secret.file; {remedy}; or by "
            "certificates: set security.inter.broker.protocol=SSL"
        )
    try:
        with Path(path).open("rb") as file:
            secret = file.read(MAX_SECRET_BYTES + 1).strip()
    except OSError as error:
        raise SecretUnusable(f"cluster.secret.file {path} cannot be read: {error.strerror}; {remedy}") from None
    if not MIN_SECRET_BYTES <= len(secret) <= MAX_SECRET_BYTES:
        raise SecretUnusable(f"cluster.secret.file {path} has {len(secret)} bytes, which is no secret; {remedy}")
    return secret
