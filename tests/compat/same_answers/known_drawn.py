"""Where answers to drawn requests are others than those of Apache Kafka 4.4.0, and why."""

from __future__ import annotations

from tests.compat.same_answers.known import KNOWN


def _of(apis: str, draws: str = ".*", rest: str = "") -> str:
    """Return the pattern of the differences of some APIs, in some draws."""
    return rf"^({apis}) \d+, [^,]+, ({draws}): {rest}"


def _as(words: str) -> str:
    """Return the reason in the list of the histories that has these words."""
    (reason,) = {each for each in KNOWN.values() if words in each}
    return reason


_PAIR = r"[^:]+, [^:]+"
_SHARE_STATE = "(Initialize|Read|Write|Delete)ShareGroupState(Summary)?"
NOT_YET_READ = _of(
    "ShareFetch",
    rest=r"responses(\.length|.0..partitions.0..(records|acquired_records\.length)): Kafka (\d|'<0 bytes>'),",
)
BUSY = _of("DescribeShareGroupOffsets", rest="(connection: Kafka 'silent'|.*: Kafka nothing, )")
KNOWN_DRAWN: dict[str, str] = {
    _of(r"\w+", rest=r".*\.?order: Kafka \["): (
        "Answers are in the order of the request; Kafka puts those that it refuses apart, or follows a hash table."
    ),
    _of(r"\w+", rest=r".*error_message: Kafka (None|''|nothing), Purgatorio '<text>'$"): (
        "Where an error of Kafka has no words, this one has some."
    ),
    _of(r"\w+", rest=r".*error_message: Kafka '', Purgatorio None$"): (
        "Without an error there is no message here; some of Kafka's answers have an empty one, or NONE."
    ),
    _of("FindCoordinator|UpdateFeatures|ElectLeaders", rest=r".*error_message: Kafka '<text>', Purgatorio None$"): (
        "Without an error there is no message here; some of Kafka's answers have an empty one, or NONE."
    ),
    _of(r"\w+", _PAIR, r".*error_(code: Kafka -?[1-9]\d*, Purgatorio -?[1-9]\d*|message: .*)$"): (
        "Of two faults in one request another one may be told."
    ),
    _of(r"\w+", r"[^:]*=twice[^:]*"): (
        "What a request names twice is answered once here where Kafka's answer has it twice, or twice, or refused."
    ),
    _of("Fetch|ListOffsets", "[^:]*isolation_level=[^:]*"): _as("unknown isolation level"),
    _of("Fetch", r"[^:]*replica_id=\d+[^:]*"): (
        "A client that says that it is a replica is refused unless it has proved to be a broker; Kafka believes it."
    ),
    _of("Fetch", "[^:]*max_bytes=-[^:]*"): (
        "A negative limit asks for one batch at least, as 0 does; Kafka fails (UNKNOWN_SERVER_ERROR)."
    ),
    _of("Fetch", "[^:]*session_id=[^:]*"): (
        "A session's id is not looked at where the request asks for no session; Kafka fails (UNKNOWN_SERVER_ERROR)."
    ),
    _of("Metadata", "[^:]*topics=among strangers[^:]*"): _as("leaves out those with names alone"),
    _of("Metadata", "[^:]*topics.name=null[^:]*"): _as("neither name nor id"),
    _of("Metadata|DescribeTopicPartitions", rest=".*authorized_operations: Kafka 3576, Purgatorio -2147483648$"): _as(
        "What may be done with a topic that there is not"
    ),
    _of("OffsetForLeaderEpoch|DescribeLogDirs|DescribeProducers|Fetch|ListOffsets", "[^:]*=internal[^:]*"): (
        "The coordinators' topics have other records than Kafka's."
    ),
    rf"^(WriteTxnMarkers|{_SHARE_STATE}) \d+, login, ": (
        "Without an authorizer a client that logs in may not send what brokers send to each other; in Kafka it may."
    ),
    BUSY: "While Kafka reads the states of share partitions, it may not answer in time.",
    _of(
        "(Describe|Create|Delete)Acls", "[^:]*=0[^:]*", "(connection: Kafka 'closed'|.*error_code: Kafka nothing)"
    ): _as("closes the connection on an unknown type"),
    _of(
        "DescribeAcls", "[^:]*(type_filter|operation|permission_type)=[^:]*", "error_code: Kafka 0, Purgatorio 42$"
    ): _as("finds no rules for an unknown type"),
    _of("CreateAcls", "[^:]*(type|operation)=[12][^:]*", ".*: Kafka -1, Purgatorio 42$"): _as(
        "what only filters may name"
    ),
    _of("CreateAcls", "[^:]*host=odd[^:]*"): "A rule's host may be any text here; Kafka refuses some.",
    _of("ShareFetch|ShareAcknowledge", r"[^:]*(topics=among strangers|topic_id=(zero|unknown))[^:]*"): (
        "Where there is an authorizer, Kafka fails on an unknown topic id (UNKNOWN_SERVER_ERROR)."
    ),
    r"^\w+ \d+, denied, .*error_message: Kafka ('<text>'|''|nothing), Purgatorio None$": (
        "A denial has no words; some of Kafka's have some."
    ),
    r"^JoinGroup \d+, denied, .*: (protocol_name: Kafka None, Purgatorio ''|member_id: Kafka '', Purgatorio )": (
        "The answer to a member that is denied has its id, and an empty protocol in place of none."
    ),
    r"^OffsetFetch [2-7], denied, .*: topics.length: Kafka 0, ": (
        "Versions 2 to 7 tell a group's error in each partition, too, as version 1 does: aiokafka looks there alone."
    ),
    r"^(ListPartitionReassignments|DescribeUserScramCredentials|AlterReplicaLogDirs) \d+, denied, .*length: ": (
        "A request that is denied as a whole has one error; Kafka tells of each thing that it names."
    ),
    r"^Fetch \d+, denied, .*session_id: ": "A session of nothing but what is denied is not opened; Kafka opens one.",
    r"^Metadata \d+, denied, .*is_internal: ": "An internal topic is told as such also if it is denied.",
    r"^\w+ \d+, denied, .*error_code: Kafka -?[1-9]\d*, Purgatorio (29|30|31)$": (
        "What a client may do is looked at first; Kafka sometimes looks at the rest of a request before."
    ),
    _of("JoinGroup", "[^:]*protocols.name=empty[^:]*", "protocol_name: "): (
        "A protocol whose name is empty is told as such; Kafka tells none."
    ),
    _of("AddPartitionsToTxn", "[^:]*name=internal[^:]*"): (
        "Kafka refuses internal topics to clients' transactions; here they get what was asked for."
    ),
    _of("AddPartitionsToTxn", "[^:]*transactional_id=empty[^:]*"): _as("no broker sends it"),
    _of("AddOffsetsToTxn", "[^:]*group_id=empty[^:]*"): _as("a group without a name would have"),
    _of("WriteTxnMarkers", r"[^:]*(producer_id|_epoch|transaction_version)=-[^:]*", ".*error_code: "): (
        "Markers that no coordinator writes are refused or written here otherwise than in Kafka, which may fail."
    ),
    _of(
        r"\w+",
        "[^:]*(topics|partitions|partition_indexes|partition_data)=empty[^:]*",
        r".*length: Kafka \d, Purgatorio \d$",
    ): ("A topic without partitions is in some answers, and not in others, otherwise than in Kafka."),
    _of("DescribeConfigs", "[^:]*resources=among strangers[^:]*"): (
        "Kafka's answer about an unknown type of resource has 0 for the type; here it has the type."
    ),
    _of("DescribeConfigs|AlterConfigs|IncrementalAlterConfigs", "[^:]*resource_type=16[^:]*"): (
        "There are no configs of clients' metrics (KIP-714)."
    ),
    _of("DescribeConfigs", rest=r".*segment\.bytes\.value: "): _as("Segments are smaller"),
    _of("CreateTopics", rest=r".*segment\.bytes\.value: "): _as("Segments are smaller"),
    _of("DescribeConfigs", rest=r".*synonyms"): _as("as a synonym"),
    _of("DescribeConfigs", rest=r".*documentation: "): "Configs have no documentation.",
    _of("AlterConfigs|IncrementalAlterConfigs", "[^:]*resource_name=empty[^:]*"): _as("as in other requests"),
    _of("IncrementalAlterConfigs", "[^:]*config_operation=[^:]*"): _as("fails on an unknown operation"),
    _of("CreateTopics", rest=r".*topic_id: Kafka '<new id>'"): _as("there is no id to show"),
    _of("AlterReplicaLogDirs", "[^:]*name=long[^:]*"): "The folder is looked at before the topic's name.",
    _of("AlterClientQuotas", "[^:]*entries=among strangers[^:]*"): _as("takes the last change"),
    _of("AlterUserScramCredentials", "[^:]*(salt|salted_password)=empty[^:]*"): (
        "An empty salt or password is refused; Kafka takes an empty salt, and fails on an empty password."
    ),
    _of("DescribeQuorum", rest=r".*listeners"): "The brokers vote, so that the listener is theirs.",
    _of("ConsumerGroupHeartbeat", "[^:]*subscribed_topic_names=empty[^:]*", "member_epoch: "): _as(
        "begin with epoch 2"
    ),
    _of("ListConfigResources", "[^:]*resource_types=empty[^:]*"): (
        "Brokers' loggers have no configs here, so that they are not listed."
    ),
    _of("DescribeTopicPartitions", "[^:]*name=empty[^:]*", ".*: Kafka -1, Purgatorio 17$"): _as(
        "fails on an empty name"
    ),
    _of("DescribeTopicPartitions", "[^:]*cursor.topic_name=[^:]*"): _as("Kafka refuses all"),
    _of("DescribeTopicPartitions", "[^:]*cursor.partition_index=2147483647[^:]*", "next_cursor"): (
        "A cursor behind the last partition ends the list; Kafka adds the limit to it, and tells a negative one."
    ),
    _of("ShareFetch|ShareAcknowledge", rest=".*current_leader.leader_(id|epoch): Kafka 0, Purgatorio -1$"): _as(
        "which may be a broker's id"
    ),
    _of("ShareFetch|ShareAcknowledge", "[^:]*group_id=empty[^:]*"): _as("whose partitions all fail"),
    NOT_YET_READ: "Kafka's first answers leave out a share partition whose state it has not read yet; here they wait.",
    _of("ShareFetch", "[^:]*(max_bytes|max_records)=-[^:]*"): _as("Negative limits"),
    _of("ShareFetch", "[^:]*batch_size=(0|-)[^:]*", ".*acquired_records"): _as("BatchSize of 0"),
    _of("ShareFetch", "[^:]*share_acquire_mode=[^:]*"): _as("unknown acquire mode"),
    _of("ShareGroupHeartbeat", rest="(member_epoch|assignment)"): _as("waits for the states of the partitions"),
    _of(_SHARE_STATE, r"[^:]*(epoch|offset|state|count|state_batches)=[^:]*", ".*error_(code|message): "): _as(
        "What no leader writes is refused here"
    ),
    _of("DescribeShareGroupOffsets", "[^:]*group_id=empty[^:]*"): _as("group without a name is UNKNOWN_SERVER_ERROR"),
    _of("DescribeShareGroupOffsets", "[^:]*partitions=empty[^:]*", "groups.0..error_"): (
        "A topic without partitions is in some answers, and not in others, otherwise than in Kafka."
    ),
    _of("AlterShareGroupOffsets", r"[^:]*(partition_index|start_offset)=-\d+[^:]*"): (
        "Partitions and offsets below 0 are refused each by itself; Kafka fails, or takes the offset."
    ),
    _of("DeleteShareGroupOffsets", rest=r".*topic_id: "): _as("the id of a topic that exists"),
}
"""Patterns of differences, as the comparison prints them, with the reasons."""

SOMETIMES: frozenset[str] = frozenset({NOT_YET_READ, BUSY})
"""Those that depend on how fast a broker is."""
