"""Fixtures shared by the tests of the controller's decisions."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from purgatorio.broker.metadata.controller import TopicSettings, register_broker
from purgatorio.broker.metadata.image import ClusterImage
from tests.broker.metadata.controller.harness import with_orders
from tests.endpoints import plaintext

MakeImage = Callable[..., ClusterImage]


@pytest.fixture
def rng() -> random.Random:
    return random.Random(7)


@pytest.fixture
def make_image() -> MakeImage:
    """Return a function that makes an image with these registered brokers, in these racks if given."""

    def make(*broker_ids: int, racks: tuple[str, ...] = ()) -> ClusterImage:
        image = ClusterImage(version=0, cluster_id="c")
        for place, broker_id in enumerate(broker_ids):
            rack = racks[place] if racks else None
            image, _ = register_broker(
                image,
                broker_id,
                plaintext("localhost", 9000 + broker_id),
                rack,
                lease_id=broker_id,
                settings=TopicSettings(),
            )
        return image

    return make


@pytest.fixture
def three(make_image: MakeImage) -> ClusterImage:
    """Return an image with brokers 1, 2 and 3."""
    return make_image(1, 2, 3)


@pytest.fixture
def orders(three: ClusterImage) -> ClusterImage:
    """Return an image with orders-0 on brokers 1, 2 and 3, led by 1, with min.insync.replicas=2."""
    return with_orders(three)
