"""InitProducerId, key 22, versions 0 to 6 (KIP-98): a producer id and epoch for a producer.

* 2 is the first flexible version; 3 lets a producer bump its own epoch (KIP-360).
* 4 may answer PRODUCER_FENCED (KIP-588); 5 may answer TRANSACTION_ABORTABLE (KIP-890).
* 6 adds two-phase commit (KIP-939).
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import Api, Message, boolean, int16, int32, int64, nullable_string, wire_struct


@wire_struct
class InitProducerIdRequest(Message):
    """Asks for a producer id; the transactional id is null for an idempotent producer without transactions."""

    transactional_id: str | None = nullable_string(entity=Entity.TRANSACTIONAL_ID)
    transaction_timeout_ms: int = int32()
    producer_id: int = int64(-1, since=3, entity=Entity.PRODUCER_ID)
    producer_epoch: int = int16(-1, since=3)
    enable2_pc: bool = boolean(since=6)
    keep_prepared_txn: bool = boolean(since=6)


@wire_struct
class InitProducerIdResponse(Message):
    """Gives the producer id and epoch; -1 on error."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(-1, entity=Entity.PRODUCER_ID)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64(-1, since=6, entity=Entity.PRODUCER_ID)
    ongoing_txn_producer_epoch: int = int16(-1, since=6)


API = Api(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest, InitProducerIdResponse, versions=range(7), flexible_from=2)
