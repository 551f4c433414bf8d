"""AddOffsetsToTxn, key 25, versions 0 to 4 (KIP-98): add the committed offsets of a group to a transaction.

* 2 may answer PRODUCER_FENCED (KIP-588), older versions INVALID_PRODUCER_EPOCH; 3 is the first flexible one.
* 4 may answer TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import Api, Message, int16, int32, int64, string, wire_struct


@wire_struct
class AddOffsetsToTxnRequest(Message):
    """Asks the transaction coordinator to add the partition of `__consumer_offsets` that holds the group.

    The producer asks before its TxnOffsetCommit, which goes to the group coordinator.
    """

    transactional_id: str = string(entity=Entity.TRANSACTIONAL_ID)
    producer_id: int = int64(entity=Entity.PRODUCER_ID)
    producer_epoch: int = int16()
    group_id: str = string(entity=Entity.GROUP_ID)


@wire_struct
class AddOffsetsToTxnResponse(Message):
    """Reports whether the partition is in the transaction."""

    throttle_time_ms: int = int32()
    error_code: int = int16()


API = Api(
    ApiKey.ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, versions=range(5), flexible_from=3
)
