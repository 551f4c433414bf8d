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
}
"""Patterns of differences, as the test prints them, with the reasons."""
