"""AlterUserScramCredentials, key 51, version 0, flexible: set and delete users' SCRAM credentials (KIP-554).

The client salts the password, so that the broker never sees it.
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import (
    Api,
    Message,
    array,
    binary,
    int8,
    int16,
    int32,
    nullable_string,
    string,
    wire_struct,
)
from purgatorio.protocol.primitives import Buffer


@wire_struct
class ScramCredentialDeletion:
    """A user's credential for one mechanism, to be deleted."""

    name: str = string(entity=Entity.SCRAM_USER)
    mechanism: int = int8()


@wire_struct
class ScramCredentialUpsertion:
    """A user's credential for one mechanism, to be set in place of the one that is there."""

    name: str = string(entity=Entity.SCRAM_USER)
    mechanism: int = int8()
    iterations: int = int32()
    salt: Buffer = binary()
    salted_password: Buffer = binary()


@wire_struct
class AlterUserScramCredentialsRequest(Message):
    """Asks to delete and to set credentials; each user may be named once."""

    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


@wire_struct
class AlterUserScramCredentialsResult:
    """The result of the changes to one user."""

    user: str = string(entity=Entity.SCRAM_USER)
    error_code: int = int16()
    error_message: str | None = nullable_string()


@wire_struct
class AlterUserScramCredentialsResponse(Message):
    """Reports the result for each user."""

    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)


API = Api(
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    versions=range(1),
    flexible_from=0,
)
