"""The decision of AlterUserScramCredentials: a pure function from an image to the next one (KIP-554)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from purgatorio.broker.metadata.clients import ScramCredential, ScramMechanism, ScramUser
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.security.scram import MAX_ITERATIONS, MIN_ITERATIONS, credential_of
from purgatorio.protocol.errors import ErrorCode

MAX_CREDENTIALS: Final = 10_000
"""Credentials in a cluster: every change copies the table, and an answer that lists all takes 20 ms."""
MAX_NAME_CHARS: Final = 1_000
"""The longest name of a user; names of topics have at most 249 characters."""
MAX_SALT_BYTES: Final = 1_024
"""The longest salt; clients make 16 to 64 bytes."""


class ScramEdit(NamedTuple):
    """A credential to set, or to delete.

    Attributes:
        mechanism: as in the request, known or not.
        salted_password: with `salt` and `iterations`; None deletes.
    """

    name: str
    mechanism: int
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes | None = None

    def __repr__(self) -> str:
        """Leave out the salted password, which is as good as the password."""
        return f"ScramEdit({self.name!r}, {self.mechanism})"


class ScramResult(NamedTuple):
    """The outcome for one user."""

    name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def alter_scram_credentials(image: ClusterImage, edits: Sequence[ScramEdit]) -> tuple[ClusterImage, list[ScramResult]]:
    """Edit the credential of each user independently of the others; a user who is named twice is refused."""
    times = Counter(edit.name for edit in edits)
    credentials = dict(image.scram_credentials)
    results = {}
    for edit in edits:
        problem = _refusal(credentials, edit, times[edit.name])
        if problem is not None:
            results[edit.name] = ScramResult(edit.name, *problem)
            continue
        user = ScramUser(edit.name, ScramMechanism(edit.mechanism))
        if edit.salted_password is None:
            del credentials[user]
        else:
            credentials[user] = credential_of(user.mechanism, edit.salt, edit.salted_password, edit.iterations)
        results[edit.name] = ScramResult(edit.name)
    if credentials != image.scram_credentials:
        image = image.with_scram_credentials(credentials)
    return image, list(results.values())


def stored_problem(user: ScramUser, credential: ScramCredential) -> str | None:
    """Return why no edit can have set a credential, as a sentence; None if one can."""
    key_bytes = len(credential_of(user.mechanism, b"", b"", MIN_ITERATIONS).stored_key)
    if not len(credential.stored_key) == len(credential.server_key) == key_bytes:
        return f"Keys of {user.mechanism.name} have {key_bytes} bytes."
    edit = ScramEdit(user.name, user.mechanism, credential.iterations, credential.salt, credential.stored_key)
    refused = _refusal({}, edit, times=1)
    return None if refused is None else refused[1]


def _refusal(
    credentials: dict[ScramUser, ScramCredential], edit: ScramEdit, times: int
) -> tuple[ErrorCode, str] | None:
    """Return why an edit is refused, by itself or beside these credentials; None if it is not."""
    if times > 1:
        return ErrorCode.DUPLICATE_RESOURCE, "The request names this user more than once."
    if not edit.name or len(edit.name) > MAX_NAME_CHARS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, f"A user's name has 1 to {MAX_NAME_CHARS} characters."
    if edit.mechanism not in ScramMechanism.__members__.values():
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"There is no SCRAM mechanism {edit.mechanism}."
    known = ScramUser(edit.name, ScramMechanism(edit.mechanism)) in credentials
    if edit.salted_password is None:
        return None if known else (ErrorCode.RESOURCE_NOT_FOUND, "The user has no such credential.")
    if not MIN_ITERATIONS <= edit.iterations <= MAX_ITERATIONS:
        allowed = f"{MIN_ITERATIONS} to {MAX_ITERATIONS}"
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, f"{edit.iterations} iterations are not allowed, only {allowed}."
    if not 0 < len(edit.salt) <= MAX_SALT_BYTES or not edit.salted_password:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, f"A salt has 1 to {MAX_SALT_BYTES} bytes, a salted password some."
    if not known and len(credentials) >= MAX_CREDENTIALS:
        return ErrorCode.POLICY_VIOLATION, f"The cluster has {MAX_CREDENTIALS} SCRAM credentials, its limit."
    return None
