"""Old invoices are in an object store, which is slow today: is the sum whole?

It needs ``pip install -r requirements.txt``. Run it: ``pytest``
"""

import pytest
from confluent_kafka import Consumer
from summing import sum_up, sum_up_broken

BROKEN = pytest.mark.xfail(strict=True, raises=AssertionError, reason="it takes a slow read for the end of the topic")


@pytest.fixture
def consumer(kafka):
    """A consumer of a topic with a hundred invoices, of which only the object store has the first ninety."""
    kafka.topic("invoices", remote_storage_enable=True)
    kafka.produce("invoices", *["1"] * 90)
    kafka.tier.offload("invoices")
    kafka.produce("invoices", *["1"] * 10)
    settings = {"group.id": "report", "enable.auto.commit": False}
    with Consumer(kafka.client_config("confluent", "consumer") | settings) as consumer:
        yield consumer


@pytest.mark.kafka(tier=True)
@pytest.mark.parametrize("service", [pytest.param(sum_up_broken, marks=BROKEN), sum_up])
def test_the_sum_has_all_invoices_however_slow_the_store_is(kafka, consumer, service) -> None:
    """A read takes two seconds. Consumers get empty answers meanwhile, without an error, as from Apache Kafka."""
    slow = kafka.fault(tier="get", topic="invoices", delay_ms=2000)
    assert service(consumer, "invoices") == 100
    assert slow.fired == 1
