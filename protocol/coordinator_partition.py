"""Which partition of an internal topic holds a group or a transactional id: the formula is the same for both."""

from __future__ import annotations

from struct import unpack


def coordinator_partition(key: str, partitions: int) -> int:
    """Return the partition of `__consumer_offsets` or `__transaction_state` that a key has for ever.

    The partition's leader is the key's coordinator. The formula is the hash that Java gives a string, over UTF-16 code
    units and in 32 bits, without its sign; the smallest number, which has no positive counterpart, counts as 0.

    Args:
        key: the id of a group, or a transactional id.
        partitions: how many partitions the topic has.
    """
    encoded = key.encode("utf-16-be")
    hashed = 0
    for unit in unpack(f">{len(encoded) // 2}H", encoded):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    if hashed >= 1 << 31:
        hashed = ((1 << 32) - hashed) & 0x7FFFFFFF
    return hashed % partitions
