"""A mail takes longer than the lock of its record: is it sent once?

It needs ``pip install -r requirements.txt``. Run it: ``pytest``
"""

import pytest
from confluent_kafka import ShareConsumer
from mailing import send_mails, send_mails_broken

BROKEN = pytest.mark.xfail(strict=True, raises=AssertionError, reason="the lock runs out while it sends")


def join(kafka):
    """Return a worker of the group; it fetches from now on."""
    settings = {"bootstrap.servers": kafka.bootstrap, "group.id": "mailers"}
    worker = ShareConsumer(settings | {"share.acknowledgement.mode": "explicit"})
    worker.subscribe(["mails"])
    return worker


@pytest.mark.parametrize("service", [pytest.param(send_mails_broken, marks=BROKEN), send_mails])
def test_each_mail_is_sent_once(kafka, service) -> None:
    """The first worker's mail server takes half a minute, as long as its lock; a second worker has nothing to do."""
    kafka.topic("mails")
    first, second = join(kafka), join(kafka)
    while not kafka.share_group("mailers").start_offsets():
        first.poll(0.1)
    kafka.produce("mails", "hello")
    letters, sent = [], set()

    def send_slowly(mail: bytes) -> None:
        kafka.clock.advance(30)
        service(second, letters.append, sent)
        letters.append(mail)

    service(first, send_slowly, sent)
    first.close()
    second.close()
    assert letters == [b"hello"]
