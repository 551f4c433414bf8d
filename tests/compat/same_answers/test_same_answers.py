"""The coordinators answer what Apache Kafka's answer: the same raw requests to both, compared field by field.

What differs on purpose is in `known.py`, each with its reason.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from purgatorio.protocol.api import APIS
from purgatorio.protocol.messages.api_versions import ApiVersionsRequest
from purgatorio.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from purgatorio.protocol.messages.describe_groups import DescribeGroupsRequest
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.compat.same_answers import (
    admin_histories,
    classic_histories,
    consumer_histories,
    offset_histories,
    share_fetch_histories,
    share_group_histories,
    share_state_histories,
    transaction_histories,
)
from tests.compat.same_answers.known import KNOWN
from tests.compat.same_answers.talk import NOT_READY, Field, Talk

from apache_kafka import apache_kafka  # isort: skip  # `talk` has put scripts/bench on the path
from processes import brokers  # isort: skip
from wire import Wire  # isort: skip

KAFKA_VERSION = "4.4.0"
TOPICS = {"letters": 3, "numbers": 2}
KAFKA_SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.assignment.interval.ms": 0,
    "offsets.topic.num.partitions": 5,
    "auto.create.topics.enable": "false",
    "transaction.state.log.num.partitions": 5,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "group.share.assignment.interval.ms": 0,
    "share.coordinator.state.topic.num.partitions": 5,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
}
OURS = {
    "offsets.topic.num.partitions": 5,
    "auto.create.topics.enable": "false",
    "transaction.state.log.num.partitions": 5,
    "share.coordinator.state.topic.num.partitions": 5,
}
RUNS = [
    pytest.param(history, era, id=f"{history.__module__.rpartition('.')[2].split('_')[0]}-{history.__name__}-{era}")
    for module, eras in (
        (classic_histories, range(10)),
        (offset_histories, range(1, 11)),
        (consumer_histories, consumer_histories.ERAS),
        (transaction_histories, transaction_histories.ERAS),
        (admin_histories, admin_histories.ERAS),
        (share_group_histories, share_group_histories.ERAS),
        (share_fetch_histories, share_fetch_histories.ERAS),
        (share_state_histories, share_state_histories.ERAS),
    )
    for history in module.HISTORIES
    for era in eras
]
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        shutil.which("java") is None or shutil.which("mvn") is None,
        reason="Java 17 or Maven is not installed (Debian: apt-get install default-jdk-headless maven)",
    ),
]
History = Callable[[Talk], None]
Side = tuple[tuple[str, int], dict[bytes, str], int]


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[Side, Side]]:
    """Apache Kafka and Purgatorio, with the same topics; the names of the topics by their ids."""
    try:
        with apache_kafka(1, KAFKA_SETTINGS, version=KAFKA_VERSION) as theirs, brokers(1, **OURS) as ours:
            yield _with_topics(theirs.addresses[0], 2), _with_topics(ours.addresses[0], 1)
    except SystemExit as error:
        pytest.skip(str(error))


def _with_topics(bootstrap: tuple[str, int], first_epoch: int) -> Side:
    wire = Wire(bootstrap)
    new = [CreatableTopic(name=name, num_partitions=count, replication_factor=1) for name, count in TOPICS.items()]
    created = wire.ask(19, 5, CreateTopicsRequest(topics=new, timeout_ms=10_000))
    assert not any(topic.error_code for topic in created.topics), created
    deadline = time.monotonic() + 10
    while True:
        metadata = wire.ask(3, 10, MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in TOPICS]))
        if not any(topic.error_code for topic in metadata.topics):
            break
        assert time.monotonic() < deadline, metadata
        time.sleep(0.05)
    _await_coordinators(wire, deadline)
    wire.close()
    return bootstrap, {bytes(topic.topic_id): topic.name for topic in metadata.topics}, first_epoch


def _await_coordinators(wire: Wire, deadline: float) -> None:
    """Have the coordinators' topics created, and wait until all of their partitions are loaded."""
    keys = [f"any-{number}" for number in range(40)]  # of five partitions each has one
    for key in keys:
        for key_type in (0, 1):
            request = FindCoordinatorRequest(key=key, key_type=key_type)
            while (found := wire.ask(10, 2, request)).error_code:
                assert time.monotonic() < deadline, found
                time.sleep(0.05)
    of_shares = FindCoordinatorRequest(
        key_type=2, coordinator_keys=[f"any:{'A' * 22}:{number}" for number in range(40)]
    )
    while any(each.error_code for each in wire.ask(10, 6, of_shares).coordinators):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    described = DescribeGroupsRequest(groups=keys)
    while any(group.error_code in NOT_READY for group in wire.ask(15, 5, described).groups):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _fields(side: Side, history: History, era: int) -> list[Field]:
    bootstrap, topics, first_epoch = side
    group = f"{history.__module__.rpartition('.')[2]}-{history.__name__}-{era}"
    talk = Talk(bootstrap, group, era, lambda api_key: APIS[api_key].versions, topics, first_epoch)
    try:
        history(talk)
    except Exception as error:
        error.add_note(f"after {talk.fields[-3:]}")
        raise
    finally:
        talk.close()
    return talk.fields


def differences(theirs: list[Field], ours: list[Field]) -> list[str]:
    """The fields that differ, one line each; Kafka's order."""
    kafka, purgatorio = dict(theirs), dict(ours)
    paths = dict.fromkeys([*kafka, *purgatorio])
    missing = object()
    return [
        f"{path}: Kafka {_shown(kafka, path)}, Purgatorio {_shown(purgatorio, path)}"
        for path in paths
        if kafka.get(path, missing) != purgatorio.get(path, missing)
    ]


def _shown(fields: dict[str, object], path: str) -> str:
    return repr(fields[path]) if path in fields else "nothing"


@dataclass
class Seen:
    """What the runs so far have seen."""

    runs: int = 0
    known: set[str] = field(default_factory=set)


@pytest.fixture(scope="module")
def seen() -> Seen:
    """Shared by all runs."""
    return Seen()


@pytest.mark.parametrize(("history", "era"), RUNS)
def test_same_answers(sides: tuple[Side, Side], seen: Seen, history: History, era: int) -> None:
    """Each history is answered alike, but for the known differences."""
    theirs, ours = (_fields(side, history, era) for side in sides)
    steps = [path for path, _ in theirs]
    assert len(steps) == len(set(steps)), "each step has a name of its own"
    unknown = []
    for each in differences(theirs, ours):
        known = {pattern for pattern in KNOWN if re.search(pattern, each)}
        seen.known |= known
        if not known:
            unknown.append(each)
    seen.runs += 1
    assert not unknown, "\n".join(unknown)


@pytest.mark.parametrize("version", [3, 4])
def test_same_features(sides: tuple[Side, Side], version: int) -> None:
    """The features that Purgatorio has are told as Kafka tells them."""
    theirs, ours = (_features(side, version) for side in sides)
    assert {"group.version", "share.version", "transaction.version"} == {name for _, name in ours}
    for key, (least, most) in ours.items():
        assert least == theirs[key][0] or key == ("finalized", "share.version")
        assert most == theirs[key][1] or (key[1] == "share.version" and most < theirs[key][1]), key


def _features(side: Side, version: int) -> dict[tuple[str, str], tuple[int, int]]:
    """The levels of each feature, by what is told and the feature's name."""
    wire = Wire(side[0])
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer = wire.ask(18, version, request)
    wire.close()
    assert answer.finalized_features_epoch >= 0
    supported = {("supported", each.name): (each.min_version, each.max_version) for each in answer.supported_features}
    return supported | {
        ("finalized", each.name): (each.min_version_level, each.max_version_level) for each in answer.finalized_features
    }


def test_known_differences_are_still_there(seen: Seen) -> None:
    """What no longer differs has no place in the list."""
    if seen.runs < len(RUNS):
        pytest.skip("not all histories ran before this test")
    gone = sorted(KNOWN.keys() - seen.known)
    assert not gone, "\n".join(gone)
