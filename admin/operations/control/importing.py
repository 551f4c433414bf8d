"""Topics and records that a cluster begins with: of a folder with JSON lines, and of options.

A file ``orders.jsonl`` has the records of topic orders, a record per line (`purgatorio.admin.operations.record_json`).
The file ``topics.jsonl``, if there is one, has a topic per line::

    {"name": "orders", "partitions": 6, "replicas": 3, "configs": {"cleanup.policy": "compact"}}

All is read and checked before the cluster starts; the error of an unusable line has its file, its number and the
reason.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from purgatorio.admin.operations.control.files import FileRefused, check_memory, open_plain, why
from purgatorio.admin.operations.record_json import JsonRecord, NotARecord, parse_record
from purgatorio.broker.cluster.errors import OperationRefused
from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.metadata.controller.settings import MAX_PARTITIONS
from purgatorio.broker.metadata.topic_name import topic_name_problem
from purgatorio.late import dataclass

if TYPE_CHECKING:
    from purgatorio.broker.cluster.cluster import BrokerCluster

TOPICS_FILE: Final = "topics.jsonl"
SUFFIX: Final = ".jsonl"
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""A line that is longer is not read: a record of it would not fit into a batch."""
RECORDS_PER_APPEND: Final = 1_000
BYTES_PER_APPEND: Final = 512 * 1024
"""Bytes of records after which a batch is full, as `max.message.bytes` of a topic is 1 MB by default."""
CLIENT: Final = "purgatorio.import"
_TOPIC_FIELDS: Final = ("name", "partitions", "replicas", "configs")


class NotImported(Exception):
    """A topic or a record cannot be used; the message names the file and the line, if there is one."""


@dataclass(slots=True)
class InitialTopic:
    """A topic that a cluster begins with.

    Attributes:
        partitions, replicas: how many; -1: the defaults of the brokers.
        records: those to append, in their order.
    """

    name: str
    partitions: int = -1
    replicas: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    records: list[JsonRecord] = field(default_factory=list, repr=False)
    where: str = ""


def seed_topic(text: str) -> InitialTopic:
    """Return the topic that ``orders:6`` or ``orders`` describes.

    Raises:
        NotImported: it describes none.
    """
    name, colon, count = text.rpartition(":") if ":" in text else (text, "", "")
    if problem := topic_name_problem(name):
        raise NotImported(f"--seed-topic {text}: {problem}")
    if colon and not (count.isascii() and count.isdecimal() and int(count[:9]) > 0 and len(count) <= 9):
        raise NotImported(f"--seed-topic {text}: behind the colon is the number of partitions: {name}:6")
    return InitialTopic(name, int(count) if colon else -1)


def read_folder(folder: Path) -> list[InitialTopic]:
    """Return the topics of a folder with JSON lines, by name.

    Its files may be links, as those that Kubernetes makes of a ConfigMap are.

    Raises:
        NotImported: it cannot be read, or a line cannot be used.
    """
    try:
        files = sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIX))
        check_memory(folder, sum(path.stat().st_size for path in files))
    except OSError as error:
        raise NotImported(f"{error.filename or folder}: {why(error)}") from None
    except FileRefused as error:
        raise NotImported(str(error)) from None
    if not files:
        raise NotImported(f"{folder} has no file such as orders{SUFFIX}")
    topics: dict[str, InitialTopic] = {}
    for path in sorted(files, key=lambda each: each.name != TOPICS_FILE):
        parse = _topic_line if path.name == TOPICS_FILE else _record_lines(path, topics)
        for number, given in _lines(path):
            try:
                parse(given, topics)
            except RecursionError:
                raise NotImported(f"{path}:{number}: its values are nested too deeply") from None
            except (NotARecord, ValueError) as error:
                raise NotImported(f"{path}:{number}: {error}") from None
    return [topics[name] for name in sorted(topics)]


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the JSON values of a file, with the numbers of their lines; empty lines are left out."""
    try:
        with open_plain(path, links=True) as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), 1):
                if len(line) > MAX_LINE_BYTES:
                    raise NotImported(f"{path}:{number}: the line is longer than {MAX_LINE_BYTES} bytes")
                if line.strip():
                    yield number, _json(path, number, line)
    except FileRefused as error:
        raise NotImported(str(error)) from None
    except OSError as error:
        raise NotImported(f"{path}: {why(error)}") from None


def _json(path: Path, number: int, line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
    except UnicodeDecodeError as error:
        raise NotImported(f"{path}:{number}: not UTF-8: {error.reason} at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        raise NotImported(f"{path}:{number}: not JSON: {error.msg.lower()} at character {error.pos + 1}") from None
    except (RecursionError, ValueError) as error:
        raise NotImported(f"{path}:{number}: not JSON that can be read: {error}") from None


def _topic_line(given: Any, topics: dict[str, InitialTopic]) -> None:
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        raise ValueError('a topic is an object such as {"name": "orders", "partitions": 6}')
    for each in given:
        if each not in _TOPIC_FIELDS:
            raise ValueError(f"a topic has no {each[:100]!r}, only {', '.join(_TOPIC_FIELDS)}")
    name = given["name"]
    if problem := topic_name_problem(name):
        raise ValueError(problem)
    if name in topics:
        raise ValueError(f"topic {name} is in an earlier line")
    counts = {}
    for each in ("partitions", "replicas"):
        counts[each] = given.get(each, -1)
        if type(counts[each]) is not int or not (counts[each] == -1 or 1 <= counts[each] <= MAX_PARTITIONS):
            raise ValueError(f"{each} is a whole number from 1 to {MAX_PARTITIONS}")
    configs = given.get("configs") or {}
    if not isinstance(configs, dict):
        raise ValueError('configs is an object such as {"cleanup.policy": "compact"}')
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in configs.items()}
    LogConfig.from_strings(texts).consistent()
    topics[name] = InitialTopic(name, counts["partitions"], counts["replicas"], texts, where=TOPICS_FILE)


def _record_lines(path: Path, topics: dict[str, InitialTopic]) -> Callable[[Any, dict[str, InitialTopic]], None]:
    """Return what takes the lines of a file with records; the topic is there even if the file is empty."""
    name = path.name.removesuffix(SUFFIX)
    if problem := topic_name_problem(name):
        raise NotImported(f"{path}: the file is named like its topic: {problem}")
    topic = topics.setdefault(name, InitialTopic(name, where=str(path)))

    def take(given: Any, topics: dict[str, InitialTopic]) -> None:
        record = parse_record(given)
        if record.partition is not None and record.partition >= MAX_PARTITIONS:
            raise ValueError(f"a topic has at most {MAX_PARTITIONS} partitions, so none is number {record.partition}")
        if record.partition is not None and 0 <= topic.partitions <= record.partition:
            raise ValueError(f"topic {name} has {topic.partitions} partitions, so none is number {record.partition}")
        topic.records.append(record)

    return take


def joined(seeds: Sequence[InitialTopic], imported: Sequence[InitialTopic]) -> list[InitialTopic]:
    """Return all topics; one that is both a seed and imported has the partitions of the seed.

    Raises:
        NotImported: two seeds have the same name.
    """
    topics = {each.name: each for each in imported}
    if len({each.name for each in seeds}) < len(seeds):
        raise NotImported("--seed-topic: the same topic is given twice")
    for seed in seeds:
        known = topics.setdefault(seed.name, seed)
        if seed.partitions > 0:
            known.partitions = seed.partitions
    return list(topics.values())


async def create(cluster: BrokerCluster, topics: Sequence[InitialTopic], rng: random.Random) -> None:
    """Create topics that do not exist yet.

    Raises:
        NotImported: the brokers refuse one.
    """
    from purgatorio.admin.operations.control import topic_control
    from purgatorio.broker.cluster.decisions import newest

    for topic in topics:
        if topic.name in newest(cluster.network).image.topics:
            continue
        wanted = topic.partitions
        if wanted < 0 and (named := [each.partition for each in topic.records if each.partition is not None]):
            wanted = max(named) + 1
        with _naming_file(topic):
            await topic_control.create(cluster, topic.name, wanted, topic.replicas, topic.configs, rng)


async def append(cluster: BrokerCluster, topics: Sequence[InitialTopic]) -> None:
    """Append the records of topics, with acks=all.

    Raises:
        NotImported: the brokers refuse a record, or have too little memory for all of them.
    """
    from purgatorio.admin.operations.control import topic_control

    evicted_bytes = _evicted_bytes(cluster)
    for topic in topics:
        with _naming_file(topic):
            count = topic_control.partition_count(cluster, topic.name)
            at_ms = round(cluster.clock.wall_ms())
            for portion in _portions(topic.records):
                batches, _ = topic_control.batches_of(topic.name, portion, count, at_ms)
                for result in await topic_control.append(cluster, batches, CLIENT):
                    if result.error_code:
                        raise NotImported(f"{topic.where}: {result.error_message or result.error_code.name}")
                if _evicted_bytes(cluster) > evicted_bytes:
                    limit_bytes = min(broker.log_memory.limit_bytes for broker in cluster.brokers)
                    raise NotImported(
                        f"{topic.where}: the records do not fit into the brokers' memory: --set log.memory.bytes sets "
                        f"it, and it is {limit_bytes}"
                    )


def _evicted_bytes(cluster: BrokerCluster) -> int:
    """Return how many bytes of records brokers have deleted so far for want of memory."""
    return sum(broker.log_memory.evicted_bytes for broker in cluster.brokers)


@contextlib.contextmanager
def _naming_file(topic: InitialTopic) -> Iterator[None]:
    """Add the topic's file, if there is one, to the message of a refusal."""
    try:
        yield
    except OperationRefused as error:
        raise NotImported(f"{topic.where + ': ' if topic.where else ''}{error}") from None


def _portions(records: Sequence[JsonRecord]) -> Iterator[list[JsonRecord]]:
    portion: list[JsonRecord] = []
    size_bytes = 0
    for each in records:
        size = len(each.key or b"") + len(each.value or b"") + sum(len(n) + len(v or b"") for n, v in each.headers)
        if portion and (len(portion) >= RECORDS_PER_APPEND or size_bytes + size > BYTES_PER_APPEND):
            yield portion
            portion, size_bytes = [], 0
        portion.append(each)
        size_bytes += size
    if portion:
        yield portion
