"""A member that does not poll holds up the rebalance of its group.

As in https://github.com/IBM/sarama/issues/1398.
"""

import pytest
from kafka import KafkaConsumer


@pytest.mark.kafka(brokers=1)
def test_the_second_member_gets_its_part(kafka):
    kafka.topic("orders", partitions=2)
    kafka.produce("orders", "tea", partition=0)
    kafka.produce("orders", "cake", partition=1)
    settings = kafka.client_config("kafka-python", "consumer") | {
        "group_id": "billing",
        "auto_offset_reset": "earliest",
    }
    one = KafkaConsumer("orders", client_id="one", **settings)
    two = KafkaConsumer("orders", client_id="two", **settings)
    try:
        assert one.poll(timeout_ms=5000)
        assert two.poll(timeout_ms=800)
    finally:
        two.close()
        one.close()
