"""EndTxn, key 26, versions 0 to 5 (KIP-98): commit or abort a transaction.

* 2 may answer PRODUCER_FENCED (KIP-588), older versions INVALID_PRODUCER_EPOCH; 3 is the first flexible one.
* 4 may answer TRANSACTION_ABORTABLE (KIP-890).
* 5 bumps the producer's epoch at the end of each transaction, and answers it with the producer id (KIP-890).
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import Api, Message, boolean, int16, int32, int64, string, wire_struct


@wire_struct
class EndTxnRequest(Message):
    """Asks the transaction coordinator to commit the transaction, or to abort it."""

    transactional_id: str = string(entity=Entity.TRANSACTIONAL_ID)
    producer_id: int = int64(entity=Entity.PRODUCER_ID)
    producer_epoch: int = int16()
    committed: bool = boolean()


@wire_struct
class EndTxnResponse(Message):
    """Reports whether the result is decided; records become readable later, with their partitions' markers.

    Producer id and epoch are those of the next transaction; -1 on error.
    """

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(-1, since=5, entity=Entity.PRODUCER_ID)
    producer_epoch: int = int16(-1, since=5)


API = Api(ApiKey.END_TXN, EndTxnRequest, EndTxnResponse, versions=range(6), flexible_from=3)
