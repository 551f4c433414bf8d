"""Options: the names of Spark's Kafka connector, and clear errors."""

from __future__ import annotations

import pytest

from purgatorio.pipeline.options import EARLIEST, LATEST, OptionError, Position, read_options, write_options

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def test_option_names_are_case_insensitive_and_kafka_settings_go_to_the_client() -> None:
    options = read_options(
        {
            "KAFKA.Bootstrap.Servers": "localhost:9092",
            "kafka.client.rack": "b",
            "SUBSCRIBE": "orders, payments,orders",
            "StartingOffsets": '{"orders": {"0": 23, "1": -2}}',
            "endingoffsets": "latest",
            "minPartitions": "7",
            "failOnDataLoss": "FALSE",
            "includeHeaders": "true",
        },
        streaming=False,
    )
    assert options.client == {"bootstrap.servers": "localhost:9092", "client.rack": "b"}
    assert options.topics == ("orders", "payments")
    assert options.starting == Position(EARLIEST, offsets={"orders": {0: 23, 1: EARLIEST}})
    assert options.ending == Position(LATEST)
    assert (options.min_partitions, options.fail_on_data_loss, options.include_headers) == (7, False, True)


def test_a_batch_reads_all_records_and_a_stream_new_ones() -> None:
    batch, stream = (read_options({**SERVERS, "subscribe": "orders"}, streaming=s) for s in (False, True))
    assert (batch.starting, batch.ending) == (Position(EARLIEST), Position(LATEST))
    assert (stream.starting, stream.ending) == (Position(LATEST), None)


def test_offsets_may_be_copied_from_the_progress_of_a_query() -> None:
    shown = '{"": {"orders": "XSvU/TtSTYGPLSIpHWbu7Q"}, "orders": {"0": 23}}'
    options = read_options({**SERVERS, "subscribe": "orders", "startingOffsets": shown}, streaming=False)
    assert options.starting.offsets == {"orders": {0: 23}}


def test_topics_may_be_named_matched_or_assigned() -> None:
    assigned = read_options({**SERVERS, "assign": '{"orders": [2, 0, 2]}'}, streaming=False)
    assert assigned.partitions == {"orders": (0, 2)}
    assert read_options({**SERVERS, "subscribePattern": "ord.*"}, streaming=False).pattern == "ord.*"


def test_positions_may_be_timestamps() -> None:
    options = read_options({**SERVERS, "subscribe": "orders", "startingTimestamp": "1700000000000"}, streaming=False)
    assert options.starting.timestamp_ms == 1_700_000_000_000
    by_partition = '{"orders": {"1": 1700000000000}}'
    options = read_options(
        {**SERVERS, "subscribe": "orders", "endingOffsetsByTimestamp": by_partition}, streaming=False
    )
    assert options.ending is not None
    assert options.ending.timestamps_ms == {"orders": {1: 1_700_000_000_000}}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"startingOfsets": "earliest"}, "a batch has no option startingOfsets; did you mean startingOffsets?"),
        ({"bootstrap.servers": "x"}, "did you mean kafka.bootstrap.servers?"),
        ({"maxOffsetsPerTrigger": "5"}, "a batch has no option maxOffsetsPerTrigger"),
        ({"assign": '{"orders": [0]}'}, "exactly one of subscribe, subscribePattern and assign"),
        ({"subscribe": " , "}, "subscribe names no topic"),
        ({"startingOffsets": "latest"}, "startingOffsets cannot be latest in a batch"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"startingOffsets": "soon"}, "startingOffsets is neither earliest, latest nor JSON"),
        ({"startingOffsets": "[]"}, "startingOffsets must be a JSON object by topic"),
        ({"startingOffsets": '{"orders": 5}'}, 'orders must have an object such as {"0": 23}'),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "orders-0 must have a whole number from -2, not -3"),
        ({"startingOffsets": '{"orders": {"x": 3}}'}, "a partition of orders must be a whole number"),
        ({"startingOffsets": "earliest", "startingTimestamp": "1"}, "contradict each other"),
        ({"minPartitions": "0"}, "minPartitions must be a whole number from 1, not '0'"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss must be true or false, not 'maybe'"),
        ({"maxRecordsPerPartition": "many"}, "maxRecordsPerPartition must be a whole number from 1, not 'many'"),
        ({"kafka.group.id": "mine"}, "kafka.group.id cannot be set: consumers are assigned partitions"),
        ({"kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers is required"),
        ({"startingTimestamp": str(2**63)}, "startingTimestamp must be a whole number from 0, not"),
        ({"endingOffsets": '{"orders": {"0": 9223372036854775808}}'}, "orders-0 must have a whole number from -2, not"),
        ({"startingOffsetsByTimestamp": "earliest"}, "startingOffsetsByTimestamp is no JSON"),
    ],
)
def test_the_error_for_an_invalid_option_names_it(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(OptionError) as told:
        read_options({**SERVERS, "subscribe": "orders", **options}, streaming=False)
    assert complaint in str(told.value)


@pytest.mark.parametrize(
    "name", ["groupIdPrefix", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs"]
)
@pytest.mark.parametrize("streaming", [False, True])
def test_options_of_sparks_connector_without_use_are_refused_by_name(name: str, streaming: bool) -> None:
    with pytest.raises(OptionError, match=f"^{name} has no use here, leave it out: "):
        read_options({**SERVERS, "subscribe": "orders", name: "3"}, streaming=streaming)


def test_a_start_at_a_time_may_need_records() -> None:
    given = {**SERVERS, "subscribe": "orders", "startingTimestamp": "1700000000000"}
    strategy = "startingOffsetsByTimestampStrategy"
    assert not read_options(given, streaming=True).starting.needs_records
    assert read_options({**given, strategy: "ERROR"}, streaming=True).starting.needs_records
    assert not read_options({**given, strategy: "latest"}, streaming=False).starting.needs_records
    with pytest.raises(OptionError, match="must be error or latest, not 'first'"):
        read_options({**given, strategy: "first"}, streaming=False)


def test_a_stream_may_limit_its_batches_on_both_sides() -> None:
    given = {**SERVERS, "subscribe": "orders", "checkpointLocation": "/tmp/x"}
    options = read_options(
        {**given, "maxOffsetsPerTrigger": "50", "minOffsetsPerTrigger": "5", "maxTriggerDelay": "90s"}, streaming=True
    )
    assert (options.max_offsets_per_trigger, options.min_offsets_per_trigger) == (50, 5)
    assert options.max_trigger_delay_ms == 90_000
    assert read_options(given, streaming=True).max_trigger_delay_ms == 900_000
    for wrong, complaint in [
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay must be a time such as 30s or 15m, not 'soon'"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "minOffsetsPerTrigger is 9, which is more than"),
        ({"endingOffsets": "latest"}, "a stream has no option endingOffsets"),
    ]:
        with pytest.raises(OptionError, match=complaint):
            read_options({**given, **wrong}, streaming=True)


@pytest.mark.parametrize(
    ("option", "value", "moves"),
    [
        ("startingOffsets", "earliest", False),
        ("startingOffsets", "latest", True),
        ("startingOffsets", '{"orders": {"0": 5}}', True),  # its other partitions start at the latest offset
        ("startingTimestamp", "1700000000000", True),
        ("startingOffsetsByTimestamp", '{"orders": {"0": 1700000000000}}', True),
    ],
)
def test_a_position_that_may_resolve_to_other_offsets_later_moves(option: str, value: str, moves: bool) -> None:
    options = read_options({**SERVERS, "subscribe": "orders", option: value}, streaming=True)
    assert options.starting.moves is moves


def test_patterns_and_assignments_are_checked() -> None:
    for options, complaint in [
        ({"subscribePattern": "("}, "subscribePattern is no regular expression"),
        ({"assign": "{}"}, "assign names no topic"),
        ({"assign": '{"orders": []}'}, "orders must have a list of partition numbers"),
        ({"assign": '{"orders": [-1]}'}, "orders must have a list of partition numbers"),
    ]:
        with pytest.raises(OptionError, match=complaint.replace("(", r"\(")):
            read_options({**SERVERS, **options}, streaming=False)


def test_a_writer_has_a_topic_or_leaves_it_to_the_rows() -> None:
    assert write_options({**SERVERS, "topic": "orders"}).topic == "orders"
    assert write_options(SERVERS).topic is None
    with pytest.raises(OptionError, match=r"a writer has no option topics; did you mean topic\?"):
        write_options({**SERVERS, "topics": "orders"})
