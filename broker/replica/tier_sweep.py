"""Deletes the objects of topics that were deleted. The controller's broker sweeps, so no leader has to be alive for it.

An image that has lost a topic is proof that its objects may go: topic ids are never given again. They are looked for
again until `GRACE_MS` have passed, since a leader may not have heard yet, and copy on. From time to time, and when a
broker becomes the controller, all of the cluster's objects are listed: a folder of a topic that the image lacks may be
of one that was deleted when no controller saw it, or of a new one that this broker has yet to hear of. So it goes after
`GRACE_MS`, in which a broker that holds its lease hears.

The folders of topics that exist are the business of their leaders.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from purgatorio.broker.metadata.delta import changed_topics
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.tier.claim import ClaimLost, StoreClaim
from purgatorio.broker.tier.names import DESCRIPTION, topic_folder, topic_in
from purgatorio.broker.tier.store import Store, StoredObject, StoreError
from purgatorio.late import dataclass
from purgatorio.logger import get_logger
from purgatorio.purgatory.clock import Clock, time_limit

logger = get_logger(__name__)

SWEEP_MS: Final = 3_600_000
"""The time between two lists of all objects."""
GRACE_MS: Final = 60_000
"""The time in which a broker that holds its lease hears of a topic, and gives up its copies of a deleted one."""
CALL_MS: Final = 60_000
"""The longest time that a list or a deletion may take."""
MAX_GONE: Final = 10_000
"""The most topics whose objects are deleted at a time; others are found by the next list of all."""
KEYS_AT_ONCE: Final = 1_000
"""The keys that are looked at in one turn of the event loop."""


@dataclass(slots=True)
class _Gone:
    """A topic that the image lacks: since when, and whether an earlier image had it."""

    since_ms: float
    was_known: bool


class Sweep:
    """Deletes what no topic has any more.

    Args:
        claim: by which the cluster owns the store.
        clock: times it.
        image: returns the newest image.
        sweeps: whether it is this broker's to sweep now: it is the controller, and holds its lease.

    Attributes:
        deleted: the objects that it has deleted.
    """

    def __init__(
        self,
        store: Store,
        claim: StoreClaim,
        clock: Clock,
        image: Callable[[], ClusterImage],
        sweeps: Callable[[], bool],
    ) -> None:
        self.deleted = 0
        self._store = store
        self._claim = claim
        self._clock = clock
        self._image = image
        self._sweeps = sweeps
        self._seen: ClusterImage | None = None
        self._gone: dict[bytes, _Gone] = {}
        self._list_at_ms = 0.0

    async def sweep(self, *, lists_all: bool = False) -> None:
        """Delete what is known to be no topic's, and look for more if it is time.

        Args:
            lists_all: whether it is time in any case.

        Raises:
            StoreError, TimeoutError: not all of it was done; the next call goes on.
        """
        if not self._sweeps():
            self._seen = None  # another broker sweeps; when it is this one's again it begins with a list
            return
        await self._claim.hold()
        now_ms, image = self._clock.now_ms(), self._image()
        if self._seen is None:
            self._gone, self._list_at_ms = {}, now_ms
        self._note_deleted(image, now_ms)
        if lists_all or now_ms >= self._list_at_ms:
            await self._list_all()
            self._list_at_ms = now_ms + SWEEP_MS
        for topic_id, gone in list(self._gone.items()):
            if self._image().topic_by_id(topic_id) is not None:
                self._gone.pop(topic_id, None)
            elif gone.was_known or self._clock.now_ms() - gone.since_ms >= GRACE_MS:
                await self._empty(topic_id, gone)

    def _note_deleted(self, image: ClusterImage, now_ms: float) -> None:
        before, self._seen = self._seen, image
        if before is None or before is image:
            return
        for delta in changed_topics(before, image):
            if (was := delta.before) is None or (delta.after is not None and delta.after.topic_id == was.topic_id):
                continue
            # One that left the tier earlier is found by a list of all.
            if was.is_tiered and len(self._gone) < MAX_GONE:
                self._gone[was.topic_id] = _Gone(now_ms, was_known=True)

    async def _list_all(self) -> None:
        objects = await self._listed(f"{self._image().cluster_id}/")
        image, now_ms = self._image(), self._clock.now_ms()
        for number, each in enumerate(objects):
            if number % KEYS_AT_ONCE == KEYS_AT_ONCE - 1:
                await asyncio.sleep(0)
            topic_id = topic_in(each.key)
            if topic_id is not None and image.topic_by_id(topic_id) is None and len(self._gone) < MAX_GONE:
                self._gone.setdefault(topic_id, _Gone(now_ms, was_known=False))

    async def _empty(self, topic_id: bytes, gone: _Gone) -> None:
        """Delete all objects of a topic; it is done with if there are none, and none can come any more."""
        folder = topic_folder(self._image().cluster_id, topic_id)
        objects = await self._listed(folder)
        if not objects and self._clock.now_ms() - gone.since_ms >= GRACE_MS:
            self._gone.pop(topic_id, None)  # another sweep may have
            return
        for key in _descriptions_first(objects):
            await self._claim.hold()
            if not self._sweeps():
                return
            async with time_limit(self._clock, CALL_MS):
                await self._store.delete(key)
            self.deleted += 1
        if objects:
            logger.info("the objects of a topic were deleted from the tier", folder=folder, objects=len(objects))

    async def _listed(self, prefix: str) -> Sequence[StoredObject]:
        async with time_limit(self._clock, CALL_MS):
            return await self._store.list(prefix)

    async def run(self, interval_ms: int) -> None:
        """Sweep until cancelled."""
        while True:
            try:
                await self.sweep()
            except ClaimLost:
                pass  # the rounds of copies say so
            except (StoreError, TimeoutError) as error:
                logger.warning(
                    "the tier was not swept", location=self._store.location, reason=str(error) or "no answer"
                )
            except Exception:  # a bug: the tier goes on
                logger.exception("the tier was not swept", location=self._store.location)
            await self._clock.sleep(interval_ms)


def _descriptions_first(objects: Iterable[StoredObject]) -> list[str]:
    """Return the keys in the order in which they are deleted: no segment is described whose records are gone."""
    return sorted((each.key for each in objects), key=lambda key: (not key.endswith(DESCRIPTION), key))
