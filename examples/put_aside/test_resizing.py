"""An image is broken: is it put aside, and are the others resized?

It needs ``pip install -r requirements.txt``. Run it: ``pytest``
"""

import pytest
from confluent_kafka import ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from resizing import resize_all, resize_all_broken

BROKEN = pytest.mark.xfail(strict=True, raises=AssertionError, reason="it acknowledges what it could not resize")
DEAD_LETTERS = {
    "errors.deadletterqueue.topic.name": "dlq.images",
    "errors.deadletterqueue.copy.record.enable": "true",
}


@pytest.fixture
def worker(kafka):
    """A worker of group "resizers", which has a dead-letter topic; it fetches from now on."""
    kafka.topic("images")
    kafka.topic("dlq.images", errors_deadletterqueue_group_enable=True)
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in DEAD_LETTERS.items()
    ]
    change = ConfigResource(ResourceType.GROUP, "resizers", incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.incremental_alter_configs([change])[change].result(10)
    settings = {"bootstrap.servers": kafka.bootstrap, "group.id": "resizers"}
    worker = ShareConsumer(settings | {"share.acknowledgement.mode": "explicit"})
    worker.subscribe(["images"])
    while not kafka.share_group("resizers").start_offsets():
        worker.poll(0.1)
    yield worker
    worker.close()


@pytest.mark.parametrize("service", [pytest.param(resize_all_broken, marks=BROKEN), resize_all])
def test_a_broken_image_is_put_aside(kafka, worker, service) -> None:
    """Three images come, of which the second one is broken."""
    kafka.produce("images", "cat", "torn", "dog")
    resized = []

    def resize(image: bytes) -> None:
        if image == b"torn":
            raise ValueError(image)
        resized.append(image)

    group = kafka.share_group("resizers")
    while group.start_offsets() != {("images", 0): 3}:  # until all are done, or put aside
        service(worker, resize)
    assert resized == [b"cat", b"dog"]
    assert [(each.offset, each.value) for each in group.dead_letters()] == [(1, b"torn")]
