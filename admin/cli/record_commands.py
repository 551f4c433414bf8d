"""``purgatorio records``: produce and consume, with any cluster, by Kafka's protocol."""

from __future__ import annotations

import argparse
from typing import Any, Final

from purgatorio.admin.cli.command import Add, pair, positive
from purgatorio.admin.cli.reset_command import time_of
from purgatorio.admin.cli.wire_command import add_wire_command, by_wire

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
FORMAT: Final = "%s\\n"
_TOKENS: Final = (
    "%%s value, %%S its length, %%R the same in 4 bytes, %%k key, %%K its length, %%h headers, %%t topic, "
    "%%p partition, %%o offset, %%T timestamp in ms, \\n \\r \\t \\xXX; null has the length -1"
)


def _add(commands: Any) -> None:
    _add_produce(commands)
    _add_consume(commands)


def _add_produce(commands: Any) -> None:
    parser = add_wire_command(
        commands, "produce", by_wire("producing.produce"), None, "write each line of the standard input as a record"
    )
    parser.add_argument("topic", metavar="TOPIC", help="the topic, which has to exist")
    parser.add_argument(
        "values", metavar="VALUE", nargs="*", default=(), help="a record's line, in place of the standard input"
    )
    parser.add_argument("-k", "--key", metavar="KEY", help="the key of each record that has none of its own")
    parser.add_argument("-K", "--key-separator", metavar="TEXT", help="what divides key and value in a line")
    parser.add_argument("-D", "--delimiter", metavar="TEXT", default="\\n", help=r"what divides lines (\n)")
    parser.add_argument(
        "-H",
        "--header",
        metavar="NAME=VALUE",
        type=pair,
        action="append",
        help="a header of each record; may be repeated",
    )
    parser.add_argument(
        "-p", "--partition", metavar="N", type=_natural, help="all to this one; else by key, or in turn"
    )
    parser.add_argument(
        "-z", "--compression", metavar="CODEC", choices=CODECS, default="none", help=" or ".join(CODECS)
    )
    parser.add_argument(
        "--acks",
        choices=("all", "1", "0", "-1"),
        metavar="ACKS",
        default="all",
        help="all, 1 or 0 replicas have it (all)",
    )
    parser.add_argument("--null", metavar="TEXT", help="a key or value that is this text is null")
    parser.add_argument(
        "--json",
        action="store_true",
        dest="json_lines",
        help='each line is a record as JSON: {"key": "17", "value": "paid"}',
    )
    parser.add_argument("--skip-bad-lines", action="store_true", help="go on after a line that is no record")
    parser.add_argument("-q", "--quiet", action="store_true", help="do not print what is written")
    parser.set_defaults(check=_check_produce)


def _add_consume(commands: Any) -> None:
    parser = add_wire_command(
        commands, "consume", by_wire("consuming.consume"), None, "print the records of a topic, up to its end now"
    )
    parser.add_argument("topic", metavar="TOPIC", help="the topic")
    parser.add_argument("--follow", action="store_true", help="then wait for more, until Ctrl-C")
    parser.add_argument(
        "--from",
        metavar="WHERE",
        dest="start",
        type=place,
        default={"to": "earliest"},
        help="beginning, end, an offset, -N (so many before the end of each partition) or a time (beginning)",
    )
    parser.add_argument(
        "--until",
        metavar="WHERE",
        type=place,
        default={"to": "latest"},
        help="end (as it is at the start), an offset that is not read any more, or a time (end)",
    )
    parser.add_argument("-n", "--count", metavar="N", type=positive, help="end after so many records")
    parser.add_argument(
        "-p", "--partition", metavar="N", type=_natural, action="append", help="only this one; may be repeated"
    )
    parser.add_argument("-f", "--format", metavar="TEXT", default=FORMAT, help=f"as kcat has it: {_TOKENS} (%%s\\n)")
    parser.add_argument("--json", action="store_true", dest="json_lines", help="a line of JSON for each record")
    parser.add_argument("--null", metavar="TEXT", help="what is printed for a key or value that is null (nothing)")
    parser.add_argument("-g", "--group", metavar="GROUP", help="as a member of this group, which goes on where it was")
    parser.add_argument(
        "--isolation",
        metavar="LEVEL",
        choices=("read_committed", "read_uncommitted"),
        default="read_committed",
        help="read_committed or read_uncommitted, with what transactions aborted or have not ended (read_committed)",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="do not print how many there were")
    parser.set_defaults(check=_check_consume)


def _check_produce(args: argparse.Namespace) -> str:
    """Return why these options do not go together, or nothing if they do."""
    of_text = {"--key": args.key, "--key-separator": args.key_separator, "--null": args.null}
    given = [flag for flag, value in of_text.items() if value is not None]
    if args.json_lines and given:
        return f"--json and {given[0]} do not go together: each line of JSON says its key, and what is null"
    return ""


def _check_consume(args: argparse.Namespace) -> str:
    """Return why these options do not go together, or nothing if they do."""
    if args.group is not None and args.partition:
        return "--group and --partition do not go together: the group says who reads which partition"
    if args.follow and args.until != {"to": "latest"}:
        return "--follow and --until do not go together"
    if args.json_lines and (args.format != FORMAT or args.null is not None):
        flag = "--format" if args.format != FORMAT else "--null"
        return f"--json and {flag} do not go together"
    return ""


def place(text: str) -> dict[str, str | int]:
    """Return a place in partitions that a user typed.

    Raises:
        ArgumentTypeError: it is none.
    """
    words = {"beginning": "earliest", "earliest": "earliest", "start": "earliest", "end": "latest", "latest": "latest"}
    if text in words:
        return {"to": words[text]}
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdecimal() and len(digits) < 19:
        return {"offset": int(text)} if text != "-0" else {"to": "latest"}
    timestamp_ms = time_of(text)
    if timestamp_ms is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not beginning, end, an offset, -N or a time such as 2026-11-21T20:15"
        )
    return {"timestamp_ms": timestamp_ms}


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) >= 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a partition")
    return int(text)


ADDED: Final[dict[str, Add]] = {"records": _add}
