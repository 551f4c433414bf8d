"""The standard input is cut into lines, and each line is a record, or none."""

from __future__ import annotations

import pytest

from purgatorio.admin.cli.wire import lines
from purgatorio.admin.cli.wire.lines import LineError, Splitter, record_of, record_of_json
from purgatorio.admin.operations.record_json import JsonRecord, NotARecord


def split(chunks: list[bytes], delimiter: bytes = b"\n") -> list[tuple[int, bytes]]:
    splitter = Splitter(delimiter)
    return [line for chunk in [*chunks, b""] for line in splitter.feed(chunk)]


def test_lines_come_whatever_the_chunks_are() -> None:
    whole = b"one\ntwo\n\nfour"
    expected = [(1, b"one"), (2, b"two"), (4, b"four")]
    assert split([whole]) == expected
    assert split([bytes([each]) for each in whole]) == expected
    assert split([b"one\n", b"two\n"]) == [(1, b"one"), (2, b"two")]
    assert split([]) == []


def test_a_delimiter_may_have_several_bytes_and_lie_between_chunks() -> None:
    assert split([b"a<", b"><b", b"<>c<>"], b"<>") == [(1, b"a"), (2, b"<b"), (3, b"c")]


def test_a_line_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 10)
    with pytest.raises(LineError, match=r"^line 2 is longer than 10 bytes$"):
        split([b"one\n", b"x" * 8, b"x" * 8])


def test_a_line_has_a_key_before_the_separator() -> None:
    assert record_of(b"a:b:c", key_separator=b":") == JsonRecord(b"a", b"b:c")
    assert record_of(b":c", key_separator=b":") == JsonRecord(b"", b"c")
    assert record_of(b"plain", key_separator=b":") == JsonRecord(None, b"plain")
    assert record_of(b"plain", key_separator=b":", key=b"k") == JsonRecord(b"k", b"plain")
    assert record_of(b"a:", key_separator=b":", null=b"") == JsonRecord(b"a", None)
    assert record_of(b"a:NULL", key_separator=b":", null=b"NULL") == JsonRecord(b"a", None)
    assert record_of(b"\xff", headers=(("h", b"1"),), partition=2) == JsonRecord(None, b"\xff", (("h", b"1"),), None, 2)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "it is not JSON: Expecting property name"),
        (b"\xff\xfe", "it is not JSON: it is not UTF-8"),
        (b"[" * 100_000, "it is not JSON"),
        (b"[1]", "a record is an object"),
        (b'{"valu": 1}', "a record has no 'valu'"),
        (b'{"value_base64": "?"}', "value_base64 is no base64"),
    ],
)
def test_a_line_that_is_no_record_says_why(line: bytes, why: str) -> None:
    with pytest.raises(NotARecord, match=why.replace("[", r"\[")):
        record_of_json(line)


def test_a_json_line_takes_the_partition_and_headers_of_the_command() -> None:
    record = record_of_json(
        b'{"value": "x", "partition": 1, "headers": {"a": "1"}}', headers=(("b", b"2"),), partition=0
    )
    assert record == JsonRecord(None, b"x", (("a", b"1"), ("b", b"2")), None, 0)
