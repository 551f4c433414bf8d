"""ListTransactions, key 66, versions 0 to 2 (KIP-664): list the transactional ids that a broker coordinates.

Version 0 is flexible; 1 adds a filter by duration (KIP-994), 2 a filter by a regular expression (KIP-1152).
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import (
    INT64,
    STRING,
    Api,
    Message,
    array,
    int16,
    int32,
    int64,
    nullable_string,
    string,
    wire_struct,
)


@wire_struct
class ListTransactionsRequest(Message):
    """Asks for the transactions that pass all filters.

    An empty list, a negative duration and a null or empty pattern pass all transactions. States have Kafka's names,
    such as "Ongoing". A duration passes transactions that have been open longer.
    """

    state_filters: list[str] = array(STRING)
    producer_id_filters: list[int] = array(INT64, entity=Entity.PRODUCER_ID)
    duration_filter_ms: int = int64(-1, since=1)
    transactional_id_pattern: str | None = nullable_string(None, since=2, null_since=2)


@wire_struct
class ListedTransaction:
    """The last transaction of one transactional id."""

    transactional_id: str = string(entity=Entity.TRANSACTIONAL_ID)
    producer_id: int = int64(entity=Entity.PRODUCER_ID)
    transaction_state: str = string()


@wire_struct
class ListTransactionsResponse(Message):
    """Lists the transactions, and the requested states that the broker does not know."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(STRING)
    transaction_states: list[ListedTransaction] = array(ListedTransaction)


API = Api(
    ApiKey.LIST_TRANSACTIONS, ListTransactionsRequest, ListTransactionsResponse, versions=range(3), flexible_from=0
)
