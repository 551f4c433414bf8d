"""The messages that say why an operation was refused."""

from purgatorio.broker.cluster.errors import named
from purgatorio.broker.log.topic_partition import TopicPartition


def test_a_message_names_a_few_partitions_and_counts_the_rest() -> None:
    assert named([TopicPartition("a", 0), TopicPartition("b", 1)]) == "a-0, b-1"
    assert named([TopicPartition("a", index) for index in range(12)]).endswith("a-9 and 2 more")
