"""DescribeUserScramCredentials, key 50, version 0, flexible: which users have SCRAM credentials (KIP-554)."""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import (
    Api,
    Message,
    array,
    int8,
    int16,
    int32,
    nullable_array,
    nullable_string,
    string,
    wire_struct,
)


@wire_struct
class UserName:
    """A user."""

    name: str = string(entity=Entity.SCRAM_USER)


@wire_struct
class DescribeUserScramCredentialsRequest(Message):
    """Asks about users; none or null ask about all."""

    users: list[UserName] | None = nullable_array(UserName)


@wire_struct
class CredentialInfo:
    """The public part of a credential: its mechanism (1 is SCRAM-SHA-256, 2 SCRAM-SHA-512) and its iterations."""

    mechanism: int = int8()
    iterations: int = int32()


@wire_struct
class DescribeUserScramCredentialsResult:
    """The credentials of one user."""

    user: str = string(entity=Entity.SCRAM_USER)
    error_code: int = int16()
    error_message: str | None = nullable_string()
    credential_infos: list[CredentialInfo] = array(CredentialInfo)


@wire_struct
class DescribeUserScramCredentialsResponse(Message):
    """Lists users with their credentials, or reports the error of the whole request."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = nullable_string()
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult)


API = Api(
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    versions=range(1),
    flexible_from=0,
)
