"""Which cluster owns the store: the one with the highest claim.

A claim is an object ``CLUSTER/claims/0000000007``, made by a write that only the first can make. Its number is in the
names of all segments that its owner copies. Two processes may come to have the same cluster: one is started on the
store of another that seemed to be dead. Then the later one claims the store by the next number. It goes by what the
store had at that moment, and ignores what the earlier one adds; the earlier one sees the higher claim, within
`CHECK_MS` while it writes, and writes no more. Clocks are not compared, and no object is locked.

The brokers of a cluster share its claim, also if they are processes of their own: the object has the owner's name.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from typing import Final

from fastcrc import crc32

from purgatorio.broker.tier.names import SegmentName, claim_in, claim_key, claims_folder
from purgatorio.broker.tier.store import Exists, Store, StoreError, Unavailable
from purgatorio.logger import get_logger
from purgatorio.purgatory.clock import Clock, time_limit

logger = get_logger(__name__)

CHECK_MS: Final = 5_000
"""The time for which a claim that was looked at counts as held: so long may a copy be made after another was made."""
CALLS_MS: Final = 60_000
"""The longest time that a look at the claims, or a claim, may take."""
MAX_CLAIM_BYTES: Final = 1_000
READS_OF_DAMAGED: Final = 3
"""A claim is damaged in the store, and so another's, if so many reads bring the same bytes."""
TRIES: Final = 10
"""The times that a number may be taken by others before the claim has failed."""


class ClaimLost(StoreError):
    """Another cluster has claimed the store since."""


class StoreClaim:
    """The claim of a cluster to its part of the store.

    Args:
        clock: times the looks at it.
        owner: the owner's name, which all brokers of the cluster have, and no other cluster of the same id.

    Attributes:
        number: the number of the claim; 0: it is not made yet.
        store, cluster_id: the store, and the cluster that claims it.
        older: the keys of the descriptions that count although they are of earlier claims.
    """

    def __init__(self, store: Store, clock: Clock, cluster_id: str, owner: str) -> None:
        self.number = 0
        self.older: Collection[str] = ()
        self.store = store
        self._clock = clock
        self.cluster_id = cluster_id
        self._owner = owner
        self._lost = ""
        self._looked_ms = 0.0
        self._lock = asyncio.Lock()

    async def hold(self, since_ms: float = 0) -> int:
        """Make the claim, or look whether it is still the highest unless that was just done; return its number.

        Args:
            since_ms: a look that began before this time, of the clock, does not count.

        Raises:
            ClaimLost: it is not, and will never be.
            StoreError: the store does not say; or it does not have the claim any more, so that it is not the one that
                was claimed: a folder whose disk is not there looks like an empty one.
        """
        async with self._lock:
            if self._lost:
                raise ClaimLost(self._lost)
            is_old = self._clock.now_ms() - self._looked_ms >= CHECK_MS or self._looked_ms < since_ms
            if not self.number or is_old:
                now_ms = self._clock.now_ms()
                try:
                    async with time_limit(self._clock, CALLS_MS):
                        await (self._look() if self.number else self._make())
                except TimeoutError as error:
                    raise Unavailable(f"no answer about claims in {CALLS_MS // 1000} s") from error
                self._looked_ms = now_ms
        return self.number

    def counts(self, key: str, name: SegmentName) -> bool:
        """Return whether a described segment is one of this cluster's: of this claim, or of earlier ones before it."""
        return name.claim == self.number or key in self.older

    async def _highest(self) -> int:
        found = (claim_in(each.key) for each in await self.store.list(claims_folder(self.cluster_id)))
        return max((number for number in found if number is not None), default=0)

    async def _look(self) -> None:
        highest = await self._highest()
        if highest > self.number:
            self._lost = (
                f"another cluster has claimed {self.store.location} for {self.cluster_id} (claim {highest}, after "
                f"{self.number}): this one copies and deletes nothing there any more; stop one of them"
            )
            raise ClaimLost(self._lost)
        if highest < self.number:
            raise Unavailable(
                f"{self.store.location} does not have claim {self.number} of this cluster any more: it was emptied, or "
                "its disk is not there; nothing is copied, deleted or begun until it is back"
            )

    async def _make(self) -> None:
        for _ in range(TRIES):
            highest = await self._highest()
            if highest and await self._owner_of(highest) == self._owner:
                self.number = highest  # of another broker of the cluster, or of a try whose answer was lost
                return
            content = _content(self._owner)
            try:
                await self.store.put(claim_key(self.cluster_id, highest + 1), [content], create=True)
            except Exists:
                continue
            self.number = highest + 1
            logger.info("the tier is claimed", location=self.store.location, claim=self.number)
            return
        raise Unavailable(f"other clusters claim {self.store.location} all the time")

    async def _owner_of(self, number: int) -> str:
        """Return the owner of a claim; "": the object does not say.

        Raises:
            StoreError: it was damaged on its way, or the store does not say.
        """
        first = await self._content_of(number)
        if (owner := _owner_in(first)) is not None:
            return owner
        for _ in range(READS_OF_DAMAGED - 1):
            if await self._content_of(number) != first:
                raise Unavailable(f"claim {number} is damaged on its way from {self.store.location}")
        return ""

    async def _content_of(self, number: int) -> bytes:
        return bytes(await self.store.get(claim_key(self.cluster_id, number), 0, MAX_CLAIM_BYTES))


def _content(owner: str) -> bytes:
    return json.dumps({"owner": owner, "crc32c": crc32.iscsi(owner.encode())}).encode()


def _owner_in(content: bytes) -> str | None:
    try:
        document = json.loads(content)
        owner = str(document["owner"])
        return owner if document["crc32c"] == crc32.iscsi(owner.encode()) else None
    except (ValueError, KeyError, TypeError):
        return None
