"""Where Purgatorio answers otherwise than Apache Kafka 4.4.0, and why; clients see no difference."""

from __future__ import annotations

KNOWN: dict[str, str] = {
    r"^DescribeGroups, (both joined|second alone): .*\.member_assignment: ": (
        "Kafka shows the last generation's assignment until the leader has synced; here it ends with its generation."
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
    r"^(Share|Consumer|)(GroupDescribe|DescribeGroups), (unknown|empty id), operations: groups(\[1\]|\.length)": (
        "A group that a request names twice is described once."
    ),
    r"^ShareGroupHeartbeat, (odd member|internal topic): (member_epoch|assignment)": (
        "Here the first answer has the assignment: it waits for the states of the partitions. Kafka's second one has."
    ),
    r"^ShareGroupHeartbeat, (the one before|still right): assignment": (
        "Who still sends the epoch before has missed the answer with its assignment, as in consumer groups."
    ),
    r"^ShareGroup(Heartbeat|Describe), (second of two|first again of two|two): .*partitions\[0\]: Kafka [01], ": (
        "Both spread partitions evenly; here the first member keeps the first partition, in Kafka the last one."
    ),
    r"^ShareGroupDescribe, some: groups\[0\]\.(group|assignment)_epoch": (
        "Here each change of start offsets begins an epoch, which fences the leaders that still use those of before."
    ),
    r"^DescribeShareGroupOffsets, empty id: ": "Kafka's answer to a group without a name is UNKNOWN_SERVER_ERROR.",
    r"^DescribeShareGroupOffsets, me, (latest|begins with .*|comes back .*): .*(start_offset|lag): Kafka -1, ": (
        "Here the start of a group is written when it is decided, before a record leaves, and another leader goes on "
        "there. In Kafka it has none before the first acknowledgement: with `latest`, another leader skips records."
    ),
    r"^DeleteShareGroupOffsets, gone: responses\[0\]\.topic_id: ": "Here the answer has the id of a topic that exists.",
    r"^Share(Fetch|Acknowledge), .*\.current_leader\.leader_(id|epoch): Kafka 0, Purgatorio -1$": (
        "No leader is named: Kafka's schema says -1 for that, but its answers have 0, which may be a broker's id."
    ),
    r"^ShareFetch, me, empty group: |^ShareAcknowledge, me, empty group: error_code: Kafka 123, Purgatorio 42$": (
        "A group without a name is refused here; Kafka opens a session for it, whose partitions all fail."
    ),
    r"^ShareFetch, me, negative bytes: responses|^ShareFetch, me, negative records, gives back: .*acknowledge_error": (
        "Negative limits ask for nothing here; Kafka tries to read."
    ),
    r"^ShareFetch, me, (unknown|negative) mode: error_code: Kafka (-1|123), Purgatorio 42$": (
        "Kafka's answer to an unknown acquire mode is UNKNOWN_SERVER_ERROR, after which the session has gone on."
    ),
    r"^ShareFetch, me, no batch size: responses\[0\]\.partitions\[0\]\.acquired_records": (
        "Kafka divides by a BatchSize of 0 into a part that ends before it begins."
    ),
    r"^FindCoordinator, negative partition, version 6: .*error_code: Kafka 0, Purgatorio 42$": (
        "There is no such share partition, and no broker asks for it."
    ),
    r"^(Write|Initialize)ShareGroupState, (negative .*|backwards|unknown state): .*error_code: Kafka (0|-1), .* 42$": (
        "What no leader writes is refused here; Kafka keeps it, or answers UNKNOWN_SERVER_ERROR."
    ),
    r"^WriteShareGroupState, (overlap|not in order): .*error_code: Kafka -1, Purgatorio 0$": (
        "Batches of one write are merged one after the other here; Kafka fails if it has others before."
    ),
    r"^ReadShareGroupStateSummary, epoch 6: .*leader_epoch: Kafka 0, Purgatorio 4$": (
        "The fence against earlier leaders outlives a new initialization; in Kafka it does not."
    ),
    r"^ReadShareGroupStateSummary, (within|leader [34]): .*delivery_complete_count: Kafka (-1|0), Purgatorio (2|-1)$": (
        "A count that comes without a start offset counts here; leaders always send both."
    ),
    r"^ShareFetch, me, mode 1, .*acquired_records(\[[01]\]|\.length)": (
        "After a record batch that was acquired in part, Kafka tells its rest apart from the batches that follow."
    ),
    r"^Produce, repeated: .*log_append_time_ms: Kafka '<time>', Purgatorio -1$": (
        "Kafka's answer to a duplicate has the time of the batch that it knows, also where records keep theirs."
    ),
    r"^Fetch, one batch: bytes of 0: ": (
        "Behind the first batch Kafka fills a partition's limit with a part of the next one, which clients drop."
    ),
    r"^(Fetch|ListOffsets), unknown isolation: ": (
        "Kafka fails on an unknown isolation level (UNKNOWN_SERVER_ERROR); here it is read_uncommitted."
    ),
    r"^ListOffsets, twice: ": (
        "Here each mention of a partition that is named twice is refused; Kafka answers once with an error."
    ),
    r"^DescribeLogDirs, here \[0, 1\]: .*partition_size: Kafka \d+, Purgatorio 0$": (
        "Deleted records give their memory back at once; Kafka's stay in their segment's file."
    ),
    r"^CreateTopics, .*\.configs\.segment\.bytes\.value: Kafka '1073741824', Purgatorio '16777216'$": (
        "Segments are smaller by default, as they are in memory."
    ),
    r"^CreateTopics, validated: .*topic_id: ": "With validate_only nothing is created, so that there is no id to show.",
    r"^Metadata, zero id: ": "Kafka fails on a topic with neither name nor id; here it is UNKNOWN_TOPIC_ID.",
    r"^Metadata, names and ids: ": "Where one topic has an id, Kafka's answer leaves out those with names alone.",
    r"^DescribeTopicPartitions, .*authorized_operations: Kafka 3576, Purgatorio -2147483648$": (
        "What may be done with a topic that there is not is not told."
    ),
    r"^DescribeTopicPartitions, named '': ": "Kafka fails on an empty name; here it is INVALID_TOPIC_EXCEPTION.",
    r"^DescribeTopicPartitions, from nowhere 0 on: ": (
        "A cursor at a topic that was not asked for begins with the topic after it; Kafka refuses all."
    ),
    r"^DeleteTopics, the same by name and by id: ": "Here both mentions of a topic are refused; Kafka answers once.",
    r"^DescribeConfigs, before: .*retention\.ms\.synonyms": (
        "log.retention.ms has a default here; Kafka's is in log.retention.hours, which it does not tell as a synonym."
    ),
    r"^IncrementalAlterConfigs, retention\.ms 9 1: .*Kafka -1, Purgatorio 42$": (
        "Kafka fails on an unknown operation; here it is INVALID_REQUEST."
    ),
    r"^IncrementalAlterConfigs, of no topic: .*Kafka 42, Purgatorio 17$": (
        "An empty name is INVALID_TOPIC_EXCEPTION here, as in other requests."
    ),
    r"^ElectLeaders, \d, here, \[0, 0\]: ": "A partition that is named twice is answered once.",
    r"^AlterClientQuotas, twice: ": "Here an entity that is named twice is refused; Kafka takes the last change.",
    r"^DescribeClientQuotas, user( alone)?: ": "So the rate of that user stays as it was.",
    r"^CreateAcls, {'\w+': [12]}.*: Kafka -1, Purgatorio 42$": (
        "Kafka fails on a rule for what only filters may name (ANY, MATCH); here it is INVALID_REQUEST."
    ),
    r"^DescribeAcls, {'resource_type_filter': 99}.*error_code: Kafka 0, Purgatorio 42$": (
        "Kafka finds no rules for an unknown type of resource; here it is INVALID_REQUEST."
    ),
    r"^(Create|Describe|Delete)Acls, .*: connection: Kafka 'closed', Purgatorio nothing$"
    r"|^(Create|Describe|Delete)Acls, ({'\w+': 0}|unknown pattern)[:.]": (
        "Kafka closes the connection on an unknown type, pattern, operation or permission; here it is INVALID_REQUEST."
    ),
    r"^Produce, (LZ4 twice|half of the records|deltas .*)(, anew)?: .*record_errors": (
        "A refusal of malformed records names the record at fault; Kafka's names none."
    ),
    r"^Produce, (ZSTD of nothing|gzip and half a member)(, anew)?: .*error_code: Kafka 87, Purgatorio -1$": (
        "Payloads that cannot be unpacked are UNKNOWN_SERVER_ERROR; in Kafka an earlier record may be refused."
    ),
    r"^Produce, lz4 with a wrong checksum: ": "Kafka does not verify the checksum of what an lz4 frame contains.",
    r"^Produce, very much, anew: ": (
        "What unpacks to more than 12.5 MB is refused where the topic needs the records, here to compress them anew: "
        "other clients would wait meanwhile."
    ),
    r"^Produce, unknown codec: .*error_code: Kafka -1, Purgatorio 76$": (
        "Kafka fails on an unknown codec; here it is UNSUPPORTED_COMPRESSION_TYPE."
    ),
    r"^Produce, deltas .*: (.*error_code: Kafka 0, Purgatorio 87|.*base_offset: Kafka \d+, Purgatorio -1)$": (
        "Offset deltas that do not ascend one by one are refused; Kafka looks only at those of compressed batches, and "
        "consumers read the others at wrong offsets."
    ),
    r"^Produce, header says late, ": (
        "The latest time in a batch's header counts; Kafka reads that of each record, and corrects the header."
    ),
    r"^Produce, time of the broker, .*, append time: .*record_errors": (
        "Where the broker gives the times, a batch that claims to have them is refused; Kafka names all of its records."
    ),
    r"^ListOffsets, without the first, at (500|5000): ": (
        "Kafka looks into the first segment in the tier whose highest timestamp fits, and no further if that record is "
        "deleted: it answers -1, or a later record, for records that are there. Here the look-up goes on."
    ),
    r"^ListOffsets, nothing left, at -3: ": (
        "Kafka names the record with the highest timestamp although it was deleted, as long as its segment is there."
    ),
    r"^Fetch, unknown last epoch in the tier: ": (
        "A last epoch that the log does not know is OFFSET_OUT_OF_RANGE; Kafka takes that error for an offset in the "
        "tier, and reads on there."
    ),
    r"^Fetch, negative limit": "Kafka fails on a negative limit; here it means no bytes, and the first batch comes.",
}
"""Patterns of differences, as the test prints them, with the reasons."""

NOT_ALWAYS: frozenset[str] = frozenset(pattern for pattern in KNOWN if pattern.startswith("^ShareGroup(Heartbeat"))
"""Those that depend on the ids of members, which are made at random, so that they are not seen in every comparison."""
