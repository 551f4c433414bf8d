"""Where Purgatorio answers otherwise than Apache Kafka 4.3.1, and why; clients see no difference."""

from __future__ import annotations

KNOWN: dict[str, str] = {
    r"^Offset(Commit|Delete), no partitions: ": (
        "Kafka leaves a topic without partitions out of the answer; here it is repeated as it was asked."
    ),
    r"^JoinGroup, .*: protocol_name: Kafka None, Purgatorio ''$": (
        "Since version 7 Kafka's refusals have no protocol, but its MEMBER_ID_REQUIRED an empty one; here all do."
    ),
    r"^DescribeGroups, (both joined|second alone): .*\.member_assignment: ": (
        "Kafka shows the last generation's assignment until the leader has synced; here it ends with its generation."
    ),
    r"^ConsumerGroup(Heartbeat|Describe), other assignor: .*epoch: Kafka 'first \+ 0', Purgatorio 'first \+ 1'$": (
        "Here a new assignor assigns at once; Kafka waits until the group changes for another reason."
    ),
    r"^ConsumerGroupHeartbeat, (empty subscription|only an empty regex): member_epoch: ": (
        "Kafka's groups begin with epoch 2, as the metadata of their topics count as a change; here "
        "with 1, with or without topics."
    ),
    r"^JoinGroup, foreign data: generation_id: Kafka 3, Purgatorio 2$": "So do the generations of an upgraded group.",
    r"^ConsumerGroupHeartbeat, first's lost answer, nothing: assignment": (
        "Who still sends the epoch before has missed the answer with its assignment: here it gets that at once, in "
        "Kafka only if it asks with all fields, as Java's client does after a failure."
    ),
    r"^ConsumerGroupHeartbeat, (partitions of an unknown topic|.* owns what it has not got|first reports .*): assign": (
        "Who reports other partitions than it was given, within its epoch, has missed an answer, too."
    ),
    r"^Produce, .*log_start_offset: Kafka 0, Purgatorio -1$": (
        "Kafka's refusals of some batches tell where the log starts; here no refusal does."
    ),
    r"^Produce, duplicate: .*log_append_time_ms: Kafka '<time>', Purgatorio -1$": (
        "Kafka's answer to a duplicate has the time of the batch that it knows, also where records keep theirs."
    ),
    r"^AddPartitionsToTxn, broker, empty: .*error_code: Kafka 42, Purgatorio 49$": (
        "An empty transactional id between brokers: no broker sends it."
    ),
    r"^AddOffsetsToTxn, empty group: error_code: Kafka 0, Purgatorio 24$": (
        "Kafka adds the partition that a group without a name would have."
    ),
    r"^ListTransactions, empty, \['duration_filter_ms'\]": (
        "For Kafka an id without a transaction has been open since 1969, so that it passes every duration."
    ),
}
"""Patterns of differences, as the test prints them, with the reasons."""
