"""DescribeClientQuotas, key 48, versions 0 and 1, flexible from 1: the quotas of clients (KIP-546)."""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.message import (
    Api,
    Message,
    array,
    boolean,
    float64,
    int8,
    int16,
    int32,
    nullable_array,
    nullable_string,
    string,
    wire_struct,
)


@wire_struct
class ClientQuotasComponent:
    """A filter for one part of an entity: this name (match type 0), the default (1), or any specified name (2)."""

    entity_type: str = string()
    match_type: int = int8()
    match: str | None = nullable_string()


@wire_struct
class DescribeClientQuotasRequest(Message):
    """Asks for the quotas of the entities that have all components; strict: and no other parts."""

    components: list[ClientQuotasComponent] = array(ClientQuotasComponent)
    strict: bool = boolean()


@wire_struct
class ClientQuotasEntityPart:
    """One part of an entity: user, client-id or ip; a null name is that of the default."""

    entity_type: str = string()
    entity_name: str | None = nullable_string()


@wire_struct
class ClientQuotasValue:
    """One quota."""

    key: str = string()
    value: float = float64()


@wire_struct
class ClientQuotasEntry:
    """The quotas of one entity."""

    entity: list[ClientQuotasEntityPart] = array(ClientQuotasEntityPart)
    values: list[ClientQuotasValue] = array(ClientQuotasValue)


@wire_struct
class DescribeClientQuotasResponse(Message):
    """Lists the entities that match; null with an error."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = nullable_string()
    entries: list[ClientQuotasEntry] | None = nullable_array(ClientQuotasEntry)


API = Api(
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    versions=range(2),
    flexible_from=1,
)
