"""Format strings write records as kcat does; JSON lines can be read again."""

from __future__ import annotations

import pytest

from purgatorio.admin.cli.wire.formats import FormatError, format_of, json_line
from purgatorio.admin.cli.wire.lines import record_of_json
from purgatorio.protocol.record import Record

PAID = Record(7, 1_000, b"17", b"paid", (("trace", b"9f"), ("none", None)))
NOTHING = Record(8, 2_000, None, None)


def written(text: str, record: Record, **options: object) -> bytes:
    return format_of(text, **options)("orders", 3, record)  # type: ignore[arg-type]


def test_each_token_is_written_as_kcat_does() -> None:
    assert written(r"%t %p %o %T [%k] %K [%s] %S %h%%\n", PAID) == b"orders 3 7 1000 [17] 2 [paid] 4 trace=9f,none=%\n"
    assert written(r"[%k] %K [%s] %S %h", NOTHING) == b"[] -1 [] -1 "
    assert written(r"%R%s", PAID) == b"\0\0\0\x04paid"
    assert written(r"%R", NOTHING) == b"\xff\xff\xff\xff"
    assert written(r"\r\t\\\x41", PAID) == b"\r\t\\A"


def test_null_has_a_text_if_one_is_given_and_what_is_empty_has_not() -> None:
    assert written("%k=%s", NOTHING, null="NULL") == b"NULL=NULL"
    assert written("%k=%s", Record(0, 0, b"", b""), null="NULL") == b"="


def test_bytes_are_written_as_they_are_but_for_a_terminal() -> None:
    binary = Record(0, 0, None, b"\xff\x1b[2J")
    assert written("%s", binary) == b"\xff\x1b[2J"
    assert written("%s", binary, for_terminal=True) == "\ufffd?[2J".encode()
    assert written("%s", Record(0, 0, None, b"a\tb\nc"), for_terminal=True) == b"a\tb\nc"
    assert written("%s", PAID, for_terminal=True) == b"paid"


def test_an_unknown_token_is_refused() -> None:
    with pytest.raises(FormatError, match=r"^a format has no %x, only %s %S %R %k"):
        format_of("%x")


@pytest.mark.parametrize("record", [PAID, NOTHING, Record(9, 3_000, b"\xff", b"\xfe\n", (("h", b"\xfd"),))])
def test_a_line_of_json_is_read_again(record: Record) -> None:
    line = json_line("orders", 3, record)
    assert line.count(b"\n") == 1
    again = record_of_json(line)
    assert (again.key, again.value, again.headers) == (record.key, record.value, record.headers)
    assert (again.partition, again.timestamp_ms) == (3, record.timestamp_ms)


def test_json_for_a_terminal_escapes_what_could_control_it_and_says_the_same() -> None:
    record = Record(0, 5, b"k", "\x1b[2J \x9b31m \x7f \u202e ä".encode(), (("\x9bname", b"v"),))
    line = json_line("orders", 0, record, for_terminal=True).decode().rstrip("\n")
    assert line.isprintable()
    again = record_of_json(line.encode())
    assert (again.value, again.headers) == (record.value, record.headers)
    plain = Record(0, 5, None, "ä".encode())
    assert json_line("orders", 0, plain, for_terminal=True) == json_line("orders", 0, plain)
