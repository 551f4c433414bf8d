"""Keeps a cluster's metadata and committed offsets beside its records in the tier, for a new process (docs/tier.md).

::

    clusters/CLUSTER/0000000007.json         the metadata, as in `snapshot.json` (see `data_folder`), by the claim
    clusters/CLUSTER/0000000007-snapshot-3   the log of committed offsets, one partition after the other

The claim is in the names, so that a cluster that has lost the store without noticing overwrites nothing of its
successor's. A new owner deletes what earlier ones have kept, when it has kept its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from typing import Final

from purgatorio.admin.operations.control import saved_format
from purgatorio.admin.operations.control.damage import Damaged
from purgatorio.admin.operations.control.saved_format import Manifest, NewerFormat, SavedLog
from purgatorio.admin.operations.control.tier_restart import Restart, all_in_order
from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.broker.cluster.snapshots import (
    NO_RECORDS,
    SavedPartition,
    Snapshot,
    abort_transactions,
    best_replicas,
    saved_part,
)
from purgatorio.broker.log.log import LogError
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metadata.topic_name import OFFSETS_TOPIC
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.node.broker_maker import TierUnusable
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.tier.claim import ClaimLost, StoreClaim
from purgatorio.broker.tier.names import kept_folder, kept_in, kept_key
from purgatorio.broker.tier.store import Store, StoreError, Unavailable
from purgatorio.logger import get_logger
from purgatorio.protocol.compression import Buffer
from purgatorio.purgatory.clock import time_limit

logger = get_logger(__name__)

KEEP_MS: Final = 1_000
"""The time between two looks whether the metadata have changed, at least."""
PACE: Final = 10
"""That time is so many times as long as the last one took: 8 MB are written for 20,000 partitions, in a second."""
KEEP_OFFSETS_MS: Final = 10_000
"""The time between two looks at committed offsets."""
CALL_MS: Final = 60_000
"""The longest time that a call of the store may take."""
COPIED_AT_ONCE: Final = 10
"""The partitions that are copied at a time at the end."""
PARTITIONS_AT_ONCE: Final = 500
"""The partitions that are looked at in one turn of the event loop."""
NOT_KEPT: Final = "scram_credentials"
"""The metadata that would be secrets in a bucket."""


async def earlier_cluster(store: Store) -> str | None:
    """Return the id of the cluster that a store has kept; None: it has none.

    Raises:
        TierUnusable: it has several.
        StoreError: it does not say.
    """
    found = [kept_in(each.key) for each in await store.list(kept_folder())]
    ids = sorted({each[0] for each in found if each is not None})
    if len(ids) > 1:
        first, *others = ids
        raise TierUnusable(
            f"tier.location: {store.location} has {len(ids)} clusters, {', '.join(ids)}; give the new one its own "
            f"location, or remove what begins with {others[0]}/ and clusters/{others[0]}/ to go on with {first}"
        )
    return ids[0] if ids else None


class TierKeeper:
    """Keeps a cluster in its tier while it runs, and at its end.

    Args:
        cluster: its brokers are in this process.
        claim: its claim to the store.
    """

    def __init__(self, cluster: BrokerCluster, claim: StoreClaim) -> None:
        self._cluster = cluster
        self._claim = claim
        self._store = claim.store
        self._kept = b""
        self._kept_image: ClusterImage | None = None
        self._number = 0
        self._offsets: dict[TopicPartition, SavedPartition] = {}
        self._offsets_at: dict[TopicPartition, tuple[int, int]] = {}
        self._offsets_due_ms = 0.0

    # --- the beginning ---

    async def read(self) -> Restart | None:
        """Claim the store, and return what it has of an earlier process of the cluster; None: there was none.

        Raises:
            TierUnusable: it cannot be read, or a newer version has written it.
        """
        try:
            number = await self._claim.hold()
            objects = await self._store.list(kept_folder(self._claim.cluster_id))
            claims = sorted(found[1] for each in objects if (found := kept_in(each.key)) is not None)
            if not any(claim < number for claim in claims):
                return None
            manifest, logs = await self._read(max(claim for claim in claims if claim < number))
            return await Restart.read(self._claim, manifest, logs, self._cluster.broker_ids)
        except StoreError as error:
            raise TierUnusable(f"tier.location: {error}") from error

    async def _read(self, claim: int) -> tuple[Manifest, dict[TopicPartition, SavedPartition]]:
        key = kept_key(self._claim.cluster_id, claim)
        where = f"tier.location: {key} in {self._store.location}"
        try:
            manifest = saved_format.read_manifest(await self._get(key, saved_format.MAX_MANIFEST_BYTES))
            kept = [log for log in manifest.logs if log.size_bytes]
            data = b""
            if kept:
                data = await self._get(self._logs_key(claim, manifest.folder), sum(log.size_bytes for log in kept))
            return manifest, _logs(kept, data)
        except NewerFormat as error:
            raise TierUnusable(f"{where} {error}; begin with that version, or with another --tier") from error
        except Damaged as error:
            raise TierUnusable(f"{where} is damaged: {error}; begin with another --tier") from error

    async def _get(self, key: str, max_bytes: int) -> bytes:
        async with time_limit(self._cluster.clock, CALL_MS):
            return bytes(await self._store.get(key, 0, max_bytes))

    def _logs_key(self, claim: int, folder: str) -> str:
        return f"{kept_key(self._claim.cluster_id, claim).removesuffix('.json')}-{folder}"

    # --- while it runs ---

    async def run(self) -> None:
        """Keep what has changed, until cancelled."""
        clock = self._cluster.clock
        while True:
            began_ms = clock.now_ms()
            try:
                await self.keep()
            except ClaimLost as error:
                logger.warning("the cluster is kept in the tier no more", reason=str(error))
                return
            except (StoreError, TimeoutError) as error:
                logger.warning("the cluster was not kept in the tier", reason=str(error) or "no answer")
            except Exception:  # a bug: the brokers go on
                logger.exception("the cluster was not kept in the tier")
            await clock.sleep(max(KEEP_MS, PACE * (clock.now_ms() - began_ms)))

    async def keep(self) -> None:
        """Keep metadata and committed offsets if they have changed, or may have.

        Raises:
            StoreError: they were not kept.
        """
        image, now_ms = self._cluster.store.image, self._cluster.clock.now_ms()
        if image is self._kept_image:
            if now_ms < self._offsets_due_ms:
                return
            offsets = await _found(image, self._cluster.brokers, OFFSETS_TOPIC)
            self._offsets_due_ms = now_ms + KEEP_OFFSETS_MS
            if _offsets_at(offsets) == self._offsets_at:
                return
        await self._keep(image, await _found(image, self._cluster.brokers), ended=False)
        self._kept_image = image

    async def _keep(self, image: ClusterImage, found: Mapping[TopicPartition, Partition], *, ended: bool) -> None:
        at = _offsets_at(found)
        is_new = at != self._offsets_at or not self._number or ended
        offsets = {tp: saved_part(found[tp].log, end) for tp, (_, end) in at.items()} if is_new else self._offsets
        number = self._number + is_new
        logs = {}
        for place, tp in enumerate(all_in_order(image)):
            if place % PARTITIONS_AT_ONCE == PARTITIONS_AT_ONCE - 1:
                await asyncio.sleep(0)
            logs[tp] = offsets.get(tp) or _without_records(found.get(tp))
        content = await asyncio.to_thread(_manifest, image, logs, number, ended)  # nothing in it changes
        if content == self._kept:
            return
        claim = await self._claim.hold()
        folder = saved_format.folder_name(number)
        parts = [batch for each in logs.values() for batch in each.batches] if is_new else []
        if parts:
            await self._put(self._logs_key(claim, folder), parts)
            await self._claim.hold()
        await self._put(kept_key(self._claim.cluster_id, claim), [content])
        self._kept, self._number, self._offsets, self._offsets_at = content, number, offsets, at
        if is_new:
            await self._delete_others(claim, folder)

    async def _put(self, key: str, parts: Sequence[Buffer]) -> None:
        async with time_limit(self._cluster.clock, CALL_MS):
            await self._store.put(key, parts, create=False)

    async def _delete_others(self, claim: int, folder: str) -> None:
        """Delete what was kept before, by this owner and by earlier ones."""
        own = {kept_key(self._claim.cluster_id, claim), self._logs_key(claim, folder)}
        kept = kept_folder(self._claim.cluster_id)
        behind = kept_key(self._claim.cluster_id, claim + 1).removesuffix(".json")
        for each in await self._store.list(kept):
            if each.key not in own and each.key < behind:  # the next owner's stay
                await self._store.delete(each.key)

    # --- the end ---

    async def end(self, brokers: Sequence[Broker]) -> str | None:
        """Copy all that brokers have of the tier's topics, and keep the rest, when they have ended.

        Open transactions are aborted: their coordinators' state is not kept.

        Returns:
            Why not all of it is in the tier; None: it is.
        """
        image = self._cluster.store.image
        found = await _found(image, brokers)
        owners = {id(replica): broker for broker in brokers for replica in broker.partitions}
        tiered = [each for each in found.values() if each.log.is_tiered and not _is_left_out(each)]
        errors: list[Exception] = []
        for replica in (*tiered, *(each for tp, each in found.items() if tp.topic == OFFSETS_TOPIC)):
            try:
                abort_transactions(replica.log)
            except LogError as error:  # there is no room for a marker
                errors.append(error)
        left_bytes = sum(each.log.size_between(each.log.copied_to, each.log.log_end_offset) for each in tiered)
        if left_bytes:
            logger.info("the rest is copied to the tier; a second signal ends at once", bytes=left_bytes)
        gate = asyncio.Semaphore(COPIED_AT_ONCE)
        await asyncio.gather(*(self._copy_all(owners[id(each)], each, gate, errors) for each in tiered))
        if not _is_lost(errors):
            try:
                await self._keep(image, found, ended=not errors)
            except (StoreError, TimeoutError) as error:
                errors.append(error)
        if not errors:
            return None
        behind = [each.tp for each in tiered if not _is_whole(each)]
        named = f", of {behind[0]} only what was copied before" if behind else ""
        return f"not all is in the tier{named}: {str(errors[0]) or 'the store did not answer in time'}"

    async def _copy_all(
        self, broker: Broker, replica: Partition, gate: asyncio.Semaphore, errors: list[Exception]
    ) -> None:
        """Copy all of a partition; add to `errors` if that fails, which keeps no other one from being copied."""
        log, tiering = replica.log, broker.tiering
        assert tiering is not None, "a cluster with a tier has brokers with one"
        log.commit_to(log.log_end_offset)
        async with gate:
            if _is_lost(errors):
                return
            log.close_active(round(self._cluster.clock.wall_ms()))
            try:
                await tiering.copy_all(replica)
            except (StoreError, TimeoutError) as error:
                errors.append(error)


def _is_lost(errors: Sequence[Exception]) -> bool:
    """Return whether one of these says that the store can be used no more; each further call may take its time."""
    return any(isinstance(each, (Unavailable, ClaimLost, TimeoutError)) for each in errors)


def _is_left_out(replica: Partition) -> bool:
    """Return whether the topic's configs say that nothing more is copied (KIP-950)."""
    return replica.log.config.remote_log_copy_disable


def _is_whole(replica: Partition) -> bool:
    return replica.log.copied_to >= replica.log.log_end_offset


def _offsets_at(found: Mapping[TopicPartition, Partition]) -> dict[TopicPartition, tuple[int, int]]:
    """Return how far the logs of committed offsets have come, by which a change is noticed: starts and ends."""
    return {
        tp: (replica.log.log_start_offset, replica.log.log_end_offset)
        for tp, replica in found.items()
        if tp.topic == OFFSETS_TOPIC and replica.log.log_end_offset
    }


async def _found(
    image: ClusterImage, brokers: Sequence[Broker], topic: str | None = None
) -> dict[TopicPartition, Partition]:
    """Return the best replica of each partition that has one."""
    found = {}
    for place, (tp, replica, _) in enumerate(best_replicas(image, brokers, topic)):
        if place % PARTITIONS_AT_ONCE == PARTITIONS_AT_ONCE - 1:
            await asyncio.sleep(0)
        if replica is not None:
            found[tp] = replica
    return found


def _without_records(replica: Partition | None) -> SavedPartition:
    """Return a log without its records: where it begins, and ends."""
    if replica is None:
        return NO_RECORDS
    return SavedPartition(replica.log.log_start_offset, replica.log.log_end_offset, ())


def _manifest(image: ClusterImage, logs: Mapping[TopicPartition, SavedPartition], number: int, ended: bool) -> bytes:
    from importlib.metadata import version  # 1 MB with what it imports

    entries = [saved_format.log_entry(place, tp, each) for place, (tp, each) in enumerate(logs.items())]
    snapshot = Snapshot.of(image, logs)
    snapshot = replace(snapshot, metadata={**snapshot.metadata, NOT_KEPT: {}})
    folder = saved_format.folder_name(number)
    return saved_format.manifest_of(snapshot, folder, entries, version("purgatorio"), ended=ended)


def _logs(kept: Sequence[SavedLog], data: bytes) -> dict[TopicPartition, SavedPartition]:
    found, position = {}, 0
    for log in kept:
        part = data[position : position + log.size_bytes]
        found[log.tp] = saved_format.read_log(BytesIO(part), len(part), log)
        position += log.size_bytes
    return found
