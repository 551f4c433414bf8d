"""The names of objects in the store: ``CLUSTER/TOPIC-ID/PARTITION/START-EPOCH-CLAIM-ID.log``, and ``.json`` beside it.

The ``.log`` has the batches of a segment as the log has them. The ``.json`` describes it, and its creation is the
commit: a ``.log`` without it is rubbish of a copy that did not end. A second try of a copy has another id, so that no
object is ever written twice. ``CLUSTER/claims/0000000007`` is a claim (see `claim`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

LOG: Final = ".log"
DESCRIPTION: Final = ".json"
_OFFSET_DIGITS: Final = 20
_NUMBER_DIGITS: Final = 10
_ID_CHARS: Final = 32
_HEX: Final = frozenset("0123456789abcdef")


class SegmentName(NamedTuple):
    """The name of a copied segment, without the folder of its partition. Names sort by their start offsets.

    Attributes:
        start_offset: its first offset.
        leader_epoch: the epoch of the leader that copied it.
        claim: the number by which the cluster owns the store.
        id: 32 hexadecimal digits of chance.
    """

    start_offset: int
    leader_epoch: int
    claim: int
    id: str

    def __str__(self) -> str:
        numbers = f"{self.leader_epoch:0{_NUMBER_DIGITS}d}-{self.claim:0{_NUMBER_DIGITS}d}"
        return f"{self.start_offset:0{_OFFSET_DIGITS}d}-{numbers}-{self.id}"


def partition_folder(cluster_id: str, topic_id: bytes, partition: int) -> str:
    """Return the prefix of the names of a partition's objects, which ends with a slash."""
    return f"{topic_folder(cluster_id, topic_id)}{partition}/"


def topic_folder(cluster_id: str, topic_id: bytes) -> str:
    """Return the prefix of the names of a topic's objects, which ends with a slash."""
    return f"{cluster_id}/{topic_id.hex()}/"


def topic_in(key: str) -> bytes | None:
    """Return the id of the topic whose object has a name; None: it is no topic's."""
    parts = key.split("/", 2)
    is_topic = len(parts) > 2 and len(parts[1]) == _ID_CHARS and _HEX.issuperset(parts[1])
    return bytes.fromhex(parts[1]) if is_topic else None


def claims_folder(cluster_id: str) -> str:
    """Return the prefix of the names of a cluster's claims."""
    return f"{cluster_id}/claims/"


def claim_key(cluster_id: str, number: int) -> str:
    """Return the name of the object of a claim."""
    return f"{claims_folder(cluster_id)}{number:0{_NUMBER_DIGITS}d}"


def claim_in(key: str) -> int | None:
    """Return the number of a claim by its object's name; None: it is no claim's."""
    name = key.rpartition("/")[2]
    return int(name) if len(name) == _NUMBER_DIGITS and name.isascii() and name.isdigit() else None


def partition_of(key: str) -> tuple[bytes, int] | None:
    """Return the topic's id and the partition of an object, or of the prefix of a list; None: it is of no partition."""
    _, topic_id, partition, *_ = [*key.split("/"), "", ""]
    if len(topic_id) != _ID_CHARS or not _HEX.issuperset(topic_id) or not partition.isdecimal():
        return None
    return bytes.fromhex(topic_id), int(partition)


def kept_folder(cluster_id: str = "") -> str:
    """Return the prefix of the names of what is kept of a cluster besides its records; of all clusters."""
    return f"clusters/{cluster_id}/" if cluster_id else "clusters/"


def kept_key(cluster_id: str, claim: int) -> str:
    """Return the name of the object that has the metadata of a cluster, as its owner by a claim has kept them."""
    return f"{kept_folder(cluster_id)}{claim:0{_NUMBER_DIGITS}d}{DESCRIPTION}"


def kept_in(key: str) -> tuple[str, int] | None:
    """Return the cluster and the claim of an object with metadata; None: it is another one."""
    parts = key.split("/")
    claim = claim_in(parts[-1].removesuffix(DESCRIPTION)) if key.endswith(DESCRIPTION) else None
    return (parts[1], claim) if claim is not None and len(parts) == len(("clusters", "id", "name")) else None


def segment_of(key: str, end: str = DESCRIPTION) -> SegmentName | None:
    """Return the segment that an object describes, or with `LOG` has the records of; None: the object is another."""
    name = key.rpartition("/")[2]
    parts = name.removesuffix(end).split("-")
    if not name.endswith(end) or len(parts) != len(SegmentName._fields):
        return None
    *numbers, an_id = parts
    if not all(number.isascii() and number.isdigit() for number in numbers):
        return None
    if len(an_id) != _ID_CHARS or not _HEX.issuperset(an_id):
        return None
    start_offset, leader_epoch, claim = map(int, numbers)
    found = SegmentName(start_offset, leader_epoch, claim, an_id)
    return found if f"{found}{end}" == name else None
