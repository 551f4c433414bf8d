"""Workers of a share group that resize images: once with a bug that shows when an image is broken, once without it."""

from collections.abc import Callable
from typing import Any

from confluent_kafka import AcknowledgeType

Resize = Callable[[bytes], None]


def resize_all_broken(worker: Any, resize: Resize) -> None:
    """Loses broken images: it acknowledges them as if they were done, so that nothing is left of them."""
    for image in worker.poll(0.5):
        try:
            resize(image.value())
        except ValueError:
            print("an image is broken")
        worker.acknowledge(image)
    worker.commit_sync()


def resize_all(worker: Any, resize: Resize) -> None:
    """Rejects broken images: the group's dead-letter topic has them, for whoever repairs them."""
    for image in worker.poll(0.5):
        try:
            resize(image.value())
        except ValueError:
            worker.acknowledge(image, AcknowledgeType.REJECT)
        else:
            worker.acknowledge(image)
    worker.commit_sync()
