"""Two producers have one transactional id.

As in https://github.com/spring-projects/spring-kafka/issues/1091.
"""

import pytest
from confluent_kafka import Producer


@pytest.mark.kafka(brokers=1)
def test_two_services_write(kafka):
    kafka.topic("orders")
    settings = kafka.client_config("confluent", "producer") | {"transactional.id": "checkout"}
    with Producer(settings | {"client.id": "one"}) as one, Producer(settings | {"client.id": "two"}) as two:
        one.init_transactions()
        two.init_transactions()
        one.begin_transaction()
        one.produce("orders", "tea")
        one.commit_transaction(5)
