"""``purgatorio records consume``: where it begins and ends, and what it prints.

`reading.py` is the loop; `grouped.py` is a member of a group, which reads what it owns.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from purgatorio.admin.cli.command import CommandRefused
from purgatorio.admin.cli.printable import printable
from purgatorio.admin.cli.wire.asking import Client, OutputFailed, patiently, refused
from purgatorio.admin.cli.wire.formats import FormatError, Write, format_of, json_line
from purgatorio.admin.cli.wire.grouped import read_as_member
from purgatorio.admin.cli.wire.groups import targets
from purgatorio.admin.cli.wire.reading import Reader, hiding, leaders_of
from purgatorio.client.client import Partition, Refused
from purgatorio.protocol.errors import ErrorCode


async def consume(client: Client, args: argparse.Namespace) -> int:
    """Write the records of a topic to the standard output; returns the exit code."""
    write = _write(args)
    committed = args.isolation == "read_committed"
    leaders = await patiently(client, partial(led, client, args.topic, args.partition or ()))
    look_up = partial(targets, client, leaders, committed=committed)
    ends: dict[Partition, int] | None = None
    hidden: dict[Partition, int] = {}
    if not args.follow:
        # Without transactions first: what is written between the two questions is not hidden.
        all_ends = await patiently(client, partial(targets, client, leaders, args.until)) if committed else {}
        ends = await patiently(client, partial(look_up, args.until))
        hidden = {tp: end - ends[tp] for tp, end in all_ends.items() if end > ends[tp]}
    reader = Reader(
        client,
        partial(_print, write),
        ends=ends,
        committed=committed,
        left=args.count,
        patience_ms=round(args.timeout * 1000),
        quiet=args.quiet,
    )
    try:
        if args.group is None:
            reader.positions |= await patiently(client, partial(look_up, args.start))
            reader.grows = args.topic if args.follow and not args.partition else None
            await reader.run()
        else:
            with ExitStack() as stack:
                other = client.another()
                stack.callback(other.close)
                await read_as_member(reader, client, other, args)
    finally:
        _report(reader, args, hidden)
    return 0


async def led(client: Client, topic: str, wanted: Iterable[int] = ()) -> dict[Partition, int]:
    """Return the leaders of a topic's partitions, or of some of them.

    Raises:
        CommandRefused: there is no such topic or partition.
        Refused: one has no leader now.
    """
    leaders = await leaders_of(client, [topic])
    for index in wanted:
        if (topic, index) not in leaders:
            raise refused(f"UNKNOWN_TOPIC_OR_PARTITION: {topic} has {len(leaders)} partitions, no {index}")
    leaders = {tp: leader for tp, leader in leaders.items() if not wanted or tp[1] in wanted}
    if -1 in leaders.values():
        raise Refused(ErrorCode.LEADER_NOT_AVAILABLE)
    return leaders


def _write(args: argparse.Namespace) -> Write:
    if sys.stdout is None:
        raise refused("cannot write the output: it is closed")
    if args.json_lines:
        return partial(json_line, for_terminal=sys.stdout.isatty())
    try:
        return format_of(args.format, args.null or "", for_terminal=sys.stdout.isatty())
    except FormatError as error:
        raise CommandRefused(f"purgatorio: {printable(str(error))}", 2) from None


def _print(write: Write, topic: str, partition: int, records: Iterable[Any]) -> None:
    try:
        sys.stdout.buffer.write(b"".join([write(topic, partition, each) for each in records]))
        sys.stdout.buffer.flush()
    except OSError as error:
        raise OutputFailed(error) from None


def _report(reader: Reader, args: argparse.Namespace, hidden: Mapping[Partition, int]) -> None:
    """Print on the standard error how much was read, and why not more; `hidden` are offsets behind the ends."""
    if args.quiet:
        return
    count = "1 record" if reader.read_count == 1 else f"{reader.read_count} records"
    partitions = len(reader.positions)
    of = f"{partitions} partition{'s' * (partitions != 1)} of {args.topic}"
    more = "" if args.follow or args.count is not None else "; --follow waits for more"
    print(f"{count} from {of}{more}", file=sys.stderr)
    held = {tp: count for tp, count in sorted(hidden.items()) if tp in reader.positions}
    if held and reader.left != 0:
        print(hiding(held), file=sys.stderr)
