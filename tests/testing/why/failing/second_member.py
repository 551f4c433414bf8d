"""Two members share a topic of one partition.

As in https://github.com/confluentinc/confluent-kafka-dotnet/issues/975.
"""

import pytest
from confluent_kafka import Consumer


@pytest.mark.kafka(brokers=1)
def test_both_members_read(kafka):
    kafka.topic("orders")
    kafka.produce("orders", "tea", "cake")
    settings = kafka.client_config("confluent", "consumer") | {"group.id": "billing", "auto.offset.reset": "earliest"}
    with Consumer(settings | {"client.id": "one"}) as one, Consumer(settings | {"client.id": "two"}) as two:
        one.subscribe(["orders"])
        assert one.poll(5).value() == b"tea"
        two.subscribe(["orders"])
        read = []
        for _ in range(20):
            one.poll(0.02)
            read.append(two.poll(0.02))
        assert any(read)
