"""Decisions about brokers and what each of them is given: registrations, epochs, ranges of producer ids.

Logs are in memory, so every life of a broker begins with empty ones. When a life ends, by leaving or by the same id
registering again, its replicas are gone: in the same change it leaves every in-sync set and can be elected nowhere.
A broker that is fenced may only be slow or cut off: it loses its leaderships, and takes part again as the same life
once it holds a lease again.
"""

from __future__ import annotations

from dataclasses import replace

from purgatorio.broker.metadata.controller.elections import settle_partitions
from purgatorio.broker.metadata.controller.settings import TopicSettings
from purgatorio.broker.metadata.image import NO_LEASE, BrokerRegistration, ClusterImage, Endpoint

PRODUCER_ID_BLOCK_SIZE = 1000
"""Producer ids that a broker is given at once, as in Kafka."""


class DuplicateBrokerId(Exception):
    """Another broker that lives has this id."""

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
    settings: TopicSettings,
) -> tuple[ClusterImage, int]:
    """Make a broker part of the cluster; an earlier life of the same id ends.

    Returns:
        The broker epoch of the life that begins.

    Raises:
        DuplicateBrokerId: the earlier life still goes on, as far as anybody knows.
    """
    known = image.live_broker(broker_id)
    if known is not None:
        raise DuplicateBrokerId(known)
    epoch = image.next_broker_epoch
    image = replace(image, next_broker_epoch=epoch + 1)
    image = image.with_broker(BrokerRegistration(broker_id, epoch, endpoints, rack, lease_id))
    return settle_partitions(image, settings, broker_id), epoch


def unregister_broker(
    image: ClusterImage, broker_id: int, broker_epoch: int, *, settings: TopicSettings
) -> tuple[ClusterImage, bool]:
    """Take a broker out of the cluster, if it still is in this epoch; what it led is led by others.

    Returns:
        Whether it was; a broker that registered again meanwhile is left alone.
    """
    known = image.brokers.get(broker_id)
    if known is None or known.broker_epoch != broker_epoch:
        return image, False
    return settle_partitions(image.without_broker(broker_id), settings, broker_id), True


def fence_broker(image: ClusterImage, lease_id: int, *, settings: TopicSettings) -> tuple[ClusterImage, int | None]:
    """Fence the broker whose lease ran out: it leads nothing from now on.

    Returns:
        Its id, or None if no broker relies on that lease (any more).
    """
    for registration in image.live_brokers.values():
        if registration.lease_id == lease_id:
            image = image.with_broker(replace(registration, fenced=True))
            return settle_partitions(image, settings, registration.broker_id), registration.broker_id
    return image, None


def resume_broker(
    image: ClusterImage, broker_id: int, broker_epoch: int, lease_id: int, *, settings: TopicSettings
) -> tuple[ClusterImage, bool]:
    """Let a broker whose lease ran out go on as the same life, under a new lease.

    Returns:
        Whether it may; it may not if it was unregistered, or if its id was registered anew, and then it has to end.
    """
    known = image.brokers.get(broker_id)
    if known is None or known.broker_epoch != broker_epoch:
        return image, False
    image = image.with_broker(replace(known, lease_id=lease_id, fenced=False))
    return settle_partitions(image, settings, broker_id), True


def allocate_producer_ids(image: ClusterImage, count: int = PRODUCER_ID_BLOCK_SIZE) -> tuple[ClusterImage, range]:
    """Take `count` producer ids that nobody else gets."""
    ids = range(image.next_producer_id, image.next_producer_id + count)
    return replace(image, next_producer_id=ids.stop), ids
