"""The records of a transaction that its producer did not end.

As in https://github.com/softwaremill/klag-exporter/issues/104.
"""

import pytest
from confluent_kafka import Consumer, Producer


@pytest.mark.kafka(brokers=1)
def test_a_paid_order_is_read(kafka):
    kafka.topic("orders")
    settings = kafka.client_config("confluent", "consumer") | {"group.id": "billing", "auto.offset.reset": "earliest"}
    writing = kafka.client_config("confluent", "producer") | {"transactional.id": "checkout-1", "client.id": "checkout"}
    with (
        Producer(writing) as producer,
        Consumer(settings | {"client.id": "reader", "isolation.level": "read_committed"}) as consumer,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("orders", "tea")
        producer.flush(5)
        consumer.subscribe(["orders"])
        assert consumer.poll(0.7) is not None
