"""Decisions about brokers: registrations, fencing, broker epochs, and blocks of producer ids.

Logs are in memory, so every incarnation of a broker starts with empty logs. An incarnation ends when the broker leaves
or its id is registered again. Its replicas are lost then: the same change removes it from every ISR and ELR.
A fenced broker may only be slow or partitioned from the metadata store. It loses its leaderships, and rejoins as the
same incarnation when it holds a lease again.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from purgatorio.broker.metadata.controller.elections import settle_partitions
from purgatorio.broker.metadata.controller.settings import TopicSettings
from purgatorio.broker.metadata.image import NO_LEASE, BrokerRegistration, ClusterImage, Endpoint

PRODUCER_ID_BLOCK_SIZE = 1000
"""The number of producer ids in the block that a broker allocates at once, as in Kafka."""


EPOCH_STEP_BITS = 44
"""A client that sends 50,000 guesses a second needs years to find an epoch, and int64 has room for 500,000
registrations and more."""


def random_epoch_step(rng: Random) -> int:
    """Return a random step from one broker epoch to the next: epochs grow, as in Kafka, and cannot be guessed."""
    return 1 + rng.getrandbits(EPOCH_STEP_BITS)


class DuplicateBrokerId(Exception):
    """A live broker has this broker id."""

    def __init__(self, holder: BrokerRegistration) -> None:
        endpoint = holder.endpoints[0]
        super().__init__(f"broker id {holder.broker_id} is in use by the broker at {endpoint.host}:{endpoint.port}")
        self.holder = holder


def register_broker(
    image: ClusterImage,
    broker_id: int,
    endpoints: tuple[Endpoint, ...],
    rack: str | None = None,
    *,
    lease_id: int = NO_LEASE,
    epoch_step: int = 1,
    settings: TopicSettings,
) -> tuple[ClusterImage, int]:
    """Register a broker; this ends an earlier incarnation of the same broker id.

    A broker that did not learn that its registration was committed decides again: the registration under the lease that
    it holds is its own.

    Args:
        epoch_step: by how much the broker epoch is larger than the last one. A fetch with a broker's id and epoch is
            taken as that follower's, so clients must not be able to guess it: see `random_epoch_step`.

    Returns:
        The new image, and the broker epoch of the new incarnation; the image as it is if that is registered.

    Raises:
        DuplicateBrokerId: the earlier incarnation is not fenced.
    """
    known = image.live_broker(broker_id)
    if known is not None and known.lease_id == lease_id != NO_LEASE:
        return image, known.broker_epoch
    if known is not None:
        raise DuplicateBrokerId(known)
    epoch = image.next_broker_epoch + epoch_step - 1
    image = replace(image, next_broker_epoch=epoch + 1)
    image = image.with_broker(BrokerRegistration(broker_id, epoch, endpoints, rack, lease_id))
    return settle_partitions(image, settings, broker_id), epoch


def unregister_broker(
    image: ClusterImage, broker_id: int, broker_epoch: int, *, settings: TopicSettings
) -> tuple[ClusterImage, bool]:
    """Remove a broker from the cluster if it has this broker epoch; other replicas lead its partitions.

    Returns:
        The new image, and whether the broker was removed; a broker that has registered again is left alone.
    """
    known = image.brokers.get(broker_id)
    if known is None or known.broker_epoch != broker_epoch:
        return image, False
    return settle_partitions(image.without_broker(broker_id), settings, broker_id), True


def fence_broker(image: ClusterImage, lease_id: int, *, settings: TopicSettings) -> tuple[ClusterImage, int | None]:
    """Fence the broker whose lease has expired: it loses its leaderships and leaves every ISR.

    Returns:
        The new image, and the broker's id, or None if no live broker holds that lease.
    """
    for registration in image.live_brokers.values():
        if registration.lease_id == lease_id:
            image = image.with_broker(replace(registration, fenced=True))
            return settle_partitions(image, settings, registration.broker_id), registration.broker_id
    return image, None


def resume_broker(
    image: ClusterImage, broker_id: int, broker_epoch: int, lease_id: int, *, settings: TopicSettings
) -> tuple[ClusterImage, bool]:
    """Unfence a broker under a new lease; it continues as the same incarnation.

    Returns:
        The new image, and whether the broker may continue. It may not if it was unregistered, or if its id was
        registered again; then this incarnation has to end.
    """
    known = image.brokers.get(broker_id)
    if known is None or known.broker_epoch != broker_epoch:
        return image, False
    image = image.with_broker(replace(known, lease_id=lease_id, fenced=False))
    return settle_partitions(image, settings, broker_id), True


def allocate_producer_ids(image: ClusterImage, count: int = PRODUCER_ID_BLOCK_SIZE) -> tuple[ClusterImage, range]:
    """Allocate a block of `count` producer ids; no id is allocated twice."""
    ids = range(image.next_producer_id, image.next_producer_id + count)
    return replace(image, next_producer_id=ids.stop), ids
