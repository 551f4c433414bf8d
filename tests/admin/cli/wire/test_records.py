"""``purgatorio records``: what is produced is consumed, by whatever the user says of keys, formats and places."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import threading

import pytest

from purgatorio.admin.cli import main as cli
from purgatorio.testing import Kafka
from tests.admin.cli.wire.conftest import Run

NAMES = iter(range(1000))


@pytest.fixture
def topic(kafka: Kafka) -> str:
    """A topic of two partitions."""
    name = f"topic-{next(NAMES)}"
    kafka.topic(name, partitions=2)
    return name


def test_lines_are_records(run: Run, topic: str) -> None:
    ran = run("records", "produce", topic, given=b"one\ntwo\nthree")
    assert ran == (0, "", f"3 records written to {topic}: partition 0 offsets 0 to 1, partition 1 offset 0\n")
    ran = run("records", "consume", topic)
    assert sorted(ran.out.splitlines()) == ["one", "three", "two"]
    assert ran.err == f"3 records from 2 partitions of {topic}; --follow waits for more\n"
    assert run("records", "consume", topic, "--quiet", found=True).out == ran.out


def test_keys_headers_and_nulls_are_written_as_kcat_does(run: Run, topic: str) -> None:
    line = ["records", "produce", topic, "-K", ":", "-H", "a=1", "-H", "b=x=y", "-p", "1", "--null", "NIL", "-q"]
    assert run(*line, given=b"k:v\n\n:empty\nplain\nk:\nk:NIL\n") == (0, "", "")
    shown = run("records", "consume", topic, "-p", "1", "-q", "-f", r"%o [%k] %K [%s] %S %h\n")
    assert shown.out.splitlines() == [
        "0 [k] 1 [v] 1 a=1,b=x=y",
        "1 [] 0 [empty] 5 a=1,b=x=y",
        "2 [] -1 [plain] 5 a=1,b=x=y",
        "3 [k] 1 [] 0 a=1,b=x=y",
        "4 [k] 1 [] -1 a=1,b=x=y",
    ]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_values_of_the_command_are_compressed_and_of_one_key(run: Run, topic: str, codec: str) -> None:
    assert run("records", "produce", topic, "one", "two", "-k", "17", "-z", codec).code == 0
    shown = run("records", "consume", topic, "-f", r"%k=%s\n", "-q")
    assert shown.out == "17=one\n17=two\n"


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_acks_are_chosen(run: Run, topic: str, acks: str) -> None:
    ran = run("records", "produce", topic, "one", "--acks", acks, "-p", "0")
    assert ran.err == (
        f"1 record sent to {topic}: 1 in partition 0\n"
        if acks == "0"
        else f"1 record written to {topic}: partition 0 offset 0\n"
    )
    assert run("records", "consume", topic, "-q", "--follow", "--count", "1").out == "one\n"


def test_json_lines_go_out_and_in_again(run: Run, topic: str, kafka: Kafka) -> None:
    assert run("records", "produce", topic, "-K:", "-H", "h=1", "-q", given=b"a:1\n\xff\xfe\n").code == 0
    lines = run("records", "consume", topic, "--json", "-q").out
    assert {json.loads(line)["topic"] for line in lines.splitlines()} == {topic}
    kafka.topic(f"{topic}-copy", partitions=2)
    assert run("records", "produce", f"{topic}-copy", "--json", "-q", given=lines.encode()).code == 0
    again = run("records", "consume", f"{topic}-copy", "--json", "-q").out
    assert again == lines.replace(f'"{topic}"', f'"{topic}-copy"')


def test_a_bad_line_ends_the_input_at_its_number(run: Run, topic: str) -> None:
    given = b'{"value": "one"}\nnonsense\n{"value": "three"}\n'
    ran = run("records", "produce", topic, "--json", given=given)
    assert ran.code == 1
    assert ran.err.splitlines() == [
        f"1 record written to {topic}: partition 0 offset 0",
        "purgatorio: line 2: it is not JSON: Expecting value; nothing after it is sent",
    ]
    ran = run("records", "produce", topic, "--json", "--skip-bad-lines", given=given)
    assert ran.code == 0
    assert ran.err.splitlines()[0] == "purgatorio: line 2: it is not JSON: Expecting value"
    assert ran.err.splitlines()[1] == "purgatorio: 1 lines are no records, and were skipped"
    assert sorted(run("records", "consume", topic, "-q").out.split()) == ["one", "one", "three"]


def test_a_record_for_a_partition_that_is_not_there_is_a_bad_line(run: Run, topic: str) -> None:
    ran = run("records", "produce", topic, "--json", "-q", given=b'{"value": "one", "partition": 7}\n')
    why = f"UNKNOWN_TOPIC_OR_PARTITION: {topic} has 2 partitions, no 7"
    assert (ran.code, ran.err) == (1, f"purgatorio: line 1: {why}; nothing after it is sent\n")
    assert run("records", "produce", topic, "x", "-p", "7").err == f"purgatorio: {why}\n"
    assert run("records", "consume", topic, "-p", "7").err == f"purgatorio: {why}\n"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (["--from", "beginning"], "0 1 2 3 4"),
        (["--from", "end"], ""),
        (["--from", "3"], "3 4"),
        (["--from", "-2"], "3 4"),
        (["--from", "-100"], "0 1 2 3 4"),
        (["--from", "1970-01-01T00:00:03Z"], "3 4"),
        (["--from", "2999-01-01"], ""),
        (["--until", "2"], "0 1"),
        (["--until", "1970-01-01T00:00:02Z"], "0 1"),
        (["--from", "1", "--count", "2"], "1 2"),
        (["--until", "-1"], "0 1 2 3"),
        (["--count", "9"], "0 1 2 3 4"),
    ],
)
def test_records_are_read_from_a_place_to_a_place(run: Run, kafka: Kafka, where: list[str], expected: str) -> None:
    if "places" not in run("topics", "list").out:
        kafka.topic("places", partitions=1)
        lines = "".join(json.dumps({"value": str(nth), "timestamp_ms": nth * 1000}) + "\n" for nth in range(5))
        assert run("records", "produce", "places", "--json", given=lines.encode()).code == 0
    assert run("records", "consume", "places", "-q", *where).out.split() == expected.split()


def test_a_batch_that_is_too_large_for_the_topic_is_cut(run: Run, kafka: Kafka) -> None:
    kafka.topic("small", partitions=1, max_message_bytes=1000)
    lines = b"".join(b"%0100d\n" % nth for nth in range(50))
    assert (
        run("records", "produce", "small", given=lines).err
        == "50 records written to small: partition 0 offsets 0 to 49\n"
    )
    assert run("records", "consume", "small", "-q").out.encode() == lines
    ran = run("records", "produce", "small", "x" * 2000)
    assert ran.code == 1
    assert "purgatorio: small-0: MESSAGE_TOO_LARGE: " in ran.err


def test_input_of_many_chunks_keeps_its_order(run: Run, kafka: Kafka) -> None:
    kafka.topic("long", partitions=1)
    lines = b"".join(b"%06d %s\n" % (nth, b"x" * 200) for nth in range(12_000))
    assert run("records", "produce", "long", given=lines).code == 0
    assert run("records", "consume", "long", "-q").out.encode() == lines


def test_records_of_open_and_aborted_transactions_are_not_printed(run: Run, kafka: Kafka) -> None:
    from confluent_kafka import Producer

    kafka.topic("sales", partitions=1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "t"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("sales", "aborted")
    producer.flush()
    producer.abort_transaction()
    producer.begin_transaction()
    producer.produce("sales", "open")
    producer.flush()
    ran = run("records", "consume", "sales")
    assert ran.out == ""
    assert ran.err.splitlines()[-1] == (
        "an open transaction hides the last offset of sales-0; --isolation read_uncommitted shows them"
    )
    assert "hides" not in run("records", "consume", "sales", "--until", "1").err
    assert run("records", "consume", "sales", "--isolation", "read_uncommitted", "-q").out == "aborted\nopen\n"
    producer.abort_transaction()


@pytest.mark.parametrize("group", [(), ("-g", "held")])
def test_a_reader_that_a_transaction_holds_back_at_its_beginning_says_so(
    run: Run, kafka: Kafka, topic: str, group: tuple[str, ...]
) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "first"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, "one", partition=0)
    producer.produce(topic, "two", partition=1)
    producer.flush()
    assert run("records", "consume", topic, *group).err.splitlines() == [
        f"0 records from 2 partitions of {topic}; --follow waits for more",
        f"an open transaction hides the last 2 offsets of {topic}-0, {topic}-1; "
        "--isolation read_uncommitted shows them",
    ]
    producer.commit_transaction()
    assert "hides" not in run("records", "consume", topic, *group).err


def test_a_group_goes_on_where_it_was(run: Run, topic: str) -> None:
    assert run("records", "produce", topic, "one", "two", "-q").code == 0
    assert sorted(run("records", "consume", topic, "--group", f"g-{topic}", "-q").out.split()) == ["one", "two"]
    assert run("records", "consume", topic, "--group", f"g-{topic}").out == ""
    assert run("records", "produce", topic, "three", "-q").code == 0
    assert run("records", "consume", topic, "--group", f"g-{topic}", "--count", "1", "-q").out == "three\n"
    described = run("groups", "describe", f"g-{topic}").out
    assert re.search(rf"{topic}-0 +2 +2 +0", described)
    assert "no members" in described


def test_what_does_not_go_together_is_refused(run: Run, topic: str) -> None:
    ran = run("records", "consume", topic, "--group", "g", "-p", "1")
    assert ran.code == 2
    assert (
        ran.err == "purgatorio: --group and --partition do not go together: the group says who reads which partition\n"
    )
    assert run("records", "consume", topic, "--follow", "--until", "3").code == 2
    assert run("records", "consume", topic, "-f", "%x").err.startswith("purgatorio: a format has no %x, only %s")
    assert run("records", "consume", topic, "--from", "yesterday").code == 2
    assert run("records", "produce", topic, "-D", "", "x").code == 0
    ran = run("records", "produce", topic, "-D", "", given=b"x")
    assert (ran.code, ran.err.splitlines()[-1]) == (2, "purgatorio: a separator is at least one character")


@pytest.mark.parametrize("verb", ["produce", "consume"])
def test_a_missing_topic_names_the_nearest(run: Run, verb: str) -> None:
    ran = run("records", verb, "oders")
    assert ran.code == 1
    assert ran.err == "purgatorio: UNKNOWN_TOPIC_OR_PARTITION: there is no topic oders; did you mean orders?\n"


def test_records_that_retention_took_are_said_to_be_gone(run: Run, kafka: Kafka) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    kafka.topic("old", partitions=1)
    assert run("records", "produce", "old", "a", "b", "c", "-q").code == 0
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_records([TopicPartition("old", 0, 2)])[TopicPartition("old", 0)].result()
    assert run("records", "consume", "old", "-q", "--from", "0").out == "c\n"


def test_a_record_that_is_refused_is_named_by_its_line(run: Run, topic: str) -> None:
    ran = run("records", "produce", topic, "-p", "0", given=b"one\n" + b"x" * 2_000_000 + b"\nthree\n")
    assert ran.code == 1
    written, unknown, why = ran.err.splitlines()
    assert written == f"1 record written to {topic}: partition 0 offset 0"
    assert unknown == "1 of those up to line 2 is not known to be written; nothing after it is sent"
    assert "MESSAGE_TOO_LARGE" in why


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("produce", "t", "--json", "-k", "17"), "--json and --key do not go together: each line"),
        (("produce", "t", "--json", "-K", ":"), "--json and --key-separator do not go together: each line"),
        (("produce", "t", "--json", "--null", ""), "--json and --null do not go together: each line"),
        (("consume", "t", "--json", "-f", "%k"), "--json and --format do not go together"),
        (("consume", "t", "--json", "--null", "-"), "--json and --null do not go together"),
    ],
)
def test_options_that_do_not_go_together_are_refused(run: Run, words: tuple[str, ...], why: str) -> None:
    ran = run("records", *words)
    assert ran.code == 2
    assert ran.err.startswith(f"purgatorio: {why}")


@pytest.mark.parametrize(
    ("verb", "stream", "why"),
    [
        ("produce", "stdin", "there is nothing to read: the standard input is closed"),
        ("consume", "stdout", "cannot write the output: it is closed"),
    ],
)
def test_a_closed_standard_stream_is_one_sentence(
    kafka: Kafka, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str, stream: str, why: str
) -> None:
    with monkeypatch.context() as closed:
        closed.setattr(f"sys.{stream}", None)  # as Python has it after <&-
        assert cli.main(["records", verb, "orders", "-q", "--bootstrap", kafka.bootstrap]) == 1
    assert capsys.readouterr().err == f"purgatorio: {why}\n"


def test_sigterm_ends_produce_after_it_said_what_is_written(
    kafka: Kafka, topic: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Input(io.BytesIO):
        """Two lines; when more is wanted, SIGTERM comes, and no line does."""

        given = b"one\ntwo\n"
        is_over = threading.Event()

        def read(self, size: int | None = -1) -> bytes:
            given, self.given = self.given, b""
            if not given:
                os.kill(os.getpid(), signal.SIGTERM)
                self.is_over.wait()
            return given

    stream = Input()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stream))
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        assert cli.main(["records", "produce", topic, "-p", "0", "--bootstrap", kafka.bootstrap]) == 143
    finally:
        stream.is_over.set()
        signal.signal(signal.SIGTERM, before)
    first, *_, last = capsys.readouterr().err.splitlines()
    assert re.match(r"[02] records written to", first)
    assert last == "purgatorio: ended by SIGTERM"
