"""The tier for the page: what of each partition is there and in memory, the reads under way, and what is the matter.

The cost is bounded: of the tiered partitions that brokers lead some are looked at, of these some are shown, and the
part of a strip that only the tier has is found anew only when it changes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple

from purgatorio.admin.operations.declare import Answer
from purgatorio.broker.causes.cause import said_of_read
from purgatorio.broker.causes.words import MAX_SHOWN
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.tiering import Tiering
from purgatorio.broker.tier.reads import PartRead
from purgatorio.broker.tier.strip import Run, Strip

STRIPS: Final = 40
"""Partitions that are shown."""
LOOKED_AT: Final = 1_000
"""Tiered partitions of each broker among which those are chosen."""
SEGMENTS: Final = 2_500
"""Segments that are looked at for these, where something has changed: five milliseconds."""
RUNS: Final = 40
"""Runs of each; those in memory are the last two."""
READS: Final = 20
"""Reads under way of each broker, the oldest."""


def read_tier(brokers: Iterable[Broker], image: ClusterImage) -> Answer | None:
    """Return what the page shows of the tier; None: no broker has one.

    `reads` are the oldest reads under way, `read_count` has all. `strips` are those of partitions that are led here:
    those to which producers are refused or whose segments are damaged first, then by name. `uncopied_bytes` is what
    memory alone has, `lag_bytes` and `lag_segments` what of this is closed, so that it is to be copied.
    """
    tiers = [(broker, broker.tiering) for broker in brokers if broker.tiering is not None]
    if not tiers:
        return None
    led = list(chain.from_iterable(islice(_led(broker, tiering), LOOKED_AT) for broker, tiering in tiers))
    shown = heapq.nsmallest(STRIPS, led, key=lambda each: (each.rank, *each.partition.tp))
    return {
        "location": tiers[0][1].store.location[:MAX_SHOWN],
        "brokers": [_broker(broker, tiering) for broker, tiering in tiers],
        "reads": _first_reads(chain.from_iterable(_reads(broker, tiering, image) for broker, tiering in tiers)),
        "strips": _strips(shown),
        "strip_count": len(led),
    }


def merged_tier(answers: Sequence[Answer | None]) -> Answer | None:
    """Return the tier of several processes as one with all their brokers has it."""
    found = [answer for answer in answers if answer is not None]
    if not found:
        return None
    strips = chain.from_iterable(answer["strips"] for answer in found)
    return {
        **found[0],
        "brokers": [row for answer in found for row in answer["brokers"]],
        "reads": _first_reads(row for answer in found for row in answer["reads"]),
        "strips": heapq.nsmallest(STRIPS, strips, key=lambda row: (row["rank"], row["topic"], row["partition"])),
        "strip_count": sum(answer["strip_count"] for answer in found),
    }


class _Led(NamedTuple):
    """A tiered partition and its leader; `rank` is 0 if something is the matter with it, so that it comes first."""

    broker: Broker
    tiering: Tiering
    partition: Partition
    rank: int


def _led(broker: Broker, tiering: Tiering) -> Iterator[_Led]:
    damaged = tiering.damaged_folders()
    for partition in tiering.tiered():
        if partition.is_leader:
            is_well = not tiering.is_refused(partition.tp) and not tiering.is_damaged(partition, damaged)
            yield _Led(broker, tiering, partition, int(is_well))


def _broker(broker: Broker, tiering: Tiering) -> Answer:
    return {
        "id": broker.broker_id,
        "trouble": tiering.trouble[:MAX_SHOWN],
        "away_ms": tiering.away_ms,
        "rebuilding": [str(tp) for tp in tiering.rebuilt()[:STRIPS]],
        "read_count": tiering.reads.under_way,
        "cached_bytes": tiering.reads.cached_bytes,
    }


# --- reads ---


def _reads(broker: Broker, tiering: Tiering, image: ClusterImage) -> Iterable[Answer]:
    return (_read(broker, tiering, read, image) for read in islice(tiering.reads.pending.values(), READS))


def _first_reads(reads: Iterable[Answer]) -> list[Answer]:
    return heapq.nsmallest(READS, reads, key=lambda row: -row["waited_ms"])


def _read(broker: Broker, tiering: Tiering, read: PartRead, image: ClusterImage) -> Answer:
    """Return a read; `says`: how it stands. It goes on when the fetch that began it is over."""
    waited_ms, held_by = tiering.reads.waited_ms(read), tiering.reads.held_by(read)
    return {
        "broker": broker.broker_id,
        "key": f"{read.segment.name}-{read.number}",
        "of": _name_of(read.folder, image),
        "start": read.part.start_offset,
        "end": read.segment.end_of_part(read.number),
        "bytes": read.part.size_bytes,
        "waited_ms": waited_ms,
        "says": said_of_read(waited_ms, read.tries, read.trouble, held_by),
    }


def _name_of(folder: str, image: ClusterImage) -> str:
    """Return the partition whose objects are in a folder; one whose topic is gone has the folder's name."""
    _, topic_id, partition, _ = folder.split("/")
    topic = image.topic_by_id(bytes.fromhex(topic_id))
    return folder if topic is None else f"{topic.name}-{partition}"


# --- strips ---


def _strips(shown: Iterable[_Led]) -> list[Answer]:
    """Return the strips; past `SEGMENTS` they are as they were found before, and others are found anew next time."""
    left, found = SEGMENTS, []
    for each in shown:
        remote = each.tiering.remote_of(each.partition)
        known = remote.runs
        found.append(_strip(each, left))
        if remote.runs is not known:
            left = max(0, left - len(remote.segments))
    return found


def _strip(led: _Led, most_segments: int) -> Answer:
    tp = led.partition.tp
    return {
        "rank": led.rank,
        "topic": tp.topic,
        "partition": tp.partition,
        "leader": led.broker.broker_id,
        **strip_as_answer(led.tiering.strip(led.partition, most_segments)),
        "refused": led.tiering.is_refused(tp),
    }


def strip_as_answer(strip: Strip) -> Answer:
    """Return a strip as JSON has it; `further_count` runs are left out before the last two."""
    runs = strip.runs if len(strip.runs) <= RUNS else (*strip.runs[: RUNS - 2], *strip.runs[-2:])
    numbers = strip._asdict()
    del numbers["runs"]
    return {
        **numbers,
        "uncopied_bytes": strip.uncopied_bytes,
        "runs": [_run(run) for run in runs],
        "further_count": len(strip.runs) - len(runs),
    }


def _run(run: Run) -> Answer:
    return {
        "start": run.start_offset,
        "end": run.end_offset,
        "kind": run.kind,
        "bytes": run.size_bytes,
        "segments": run.segment_count,
        "trouble": run.trouble[:MAX_SHOWN],
    }
