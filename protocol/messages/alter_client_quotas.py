"""AlterClientQuotas, key 49, versions 0 and 1, flexible from 1: set and remove quotas of clients (KIP-546)."""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.message import (
    Api,
    Message,
    array,
    boolean,
    float64,
    int16,
    int32,
    nullable_string,
    string,
    wire_struct,
)


@wire_struct
class AlteredEntityPart:
    """One part of an entity: user, client-id or ip; a null name is that of the default."""

    entity_type: str = string()
    entity_name: str | None = nullable_string()


@wire_struct
class ClientQuotasOp:
    """A quota to set, or to remove; the value is not used then."""

    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@wire_struct
class AlterClientQuotasEntry:
    """The changes of one entity's quotas."""

    entity: list[AlteredEntityPart] = array(AlteredEntityPart)
    ops: list[ClientQuotasOp] = array(ClientQuotasOp)


@wire_struct
class AlterClientQuotasRequest(Message):
    """Asks to change the quotas of entities, each independently of the others."""

    entries: list[AlterClientQuotasEntry] = array(AlterClientQuotasEntry)
    validate_only: bool = boolean()


@wire_struct
class AlterClientQuotasResult:
    """The outcome for one entity."""

    error_code: int = int16()
    error_message: str | None = nullable_string()
    entity: list[AlteredEntityPart] = array(AlteredEntityPart)


@wire_struct
class AlterClientQuotasResponse(Message):
    """Reports the outcome for each entity, in the order of the request."""

    throttle_time_ms: int = int32()
    entries: list[AlterClientQuotasResult] = array(AlterClientQuotasResult)


API = Api(
    ApiKey.ALTER_CLIENT_QUOTAS,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    versions=range(2),
    flexible_from=1,
)
