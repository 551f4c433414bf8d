"""The comparison: histories of requests to Apache Kafka and to Purgatorio, and where their answers differ.

The test beside this file fails on a difference that `known.py` does not have; `scripts/compatibility_card.py` writes
what was compared, and what differs, into the data of docs/compatibility.md.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from purgatorio.broker.api.routes import APIS
from purgatorio.client.wire import Wire
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from purgatorio.protocol.messages.describe_groups import DescribeGroupsRequest
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.compat.same_answers import (
    access_histories,
    admin_histories,
    classic_histories,
    codec_histories,
    consumer_histories,
    log_histories,
    offset_histories,
    share_fetch_histories,
    share_group_histories,
    share_state_histories,
    tier_histories,
    topic_histories,
    transaction_histories,
)
from tests.compat.same_answers.known import KNOWN
from tests.compat.same_answers.talk import NOT_READY, PATIENCE_SECONDS, Field, Talk

from apache_kafka import apache_kafka, classes_of  # isort: skip  # `talk` has put scripts/bench on the path
from processes import brokers  # isort: skip

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
KAFKA_GUARD = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
OURS = {
    "offsets.topic.num.partitions": 5,
    "auto.create.topics.enable": "false",
    "transaction.state.log.num.partitions": 5,
    "share.coordinator.state.topic.num.partitions": 5,
}
OUR_GUARD = {"authorizer.class.name": "StandardAuthorizer", "super.users": "User:ANONYMOUS"}
KAFKA_TIER = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "FolderRsm",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.replication.factor": 1,
    "rlmm.config.remote.log.metadata.topic.num.partitions": 2,
    "remote.log.manager.task.interval.ms": 200,
    "log.retention.check.interval.ms": 500,
    "log.initial.task.delay.ms": 200,
}
OUR_TIER = {"remote.log.manager.task.interval.ms": 200, "log.retention.check.interval.ms": 500}
History = Callable[[Talk], None]
Side = tuple[tuple[str, int], dict[bytes, str], int]
VERSIONS = {int(api.key): api.answered_versions for api in APIS}
Sides = tuple[Side, Side]
Place = tuple[ApiKey, int]
"""An API and a version of it."""


@dataclass(frozen=True)
class Run:
    """A history in one era.

    Attributes:
        guarded: it is told to clusters with an authorizer, for which the client is a super user.
        tiered: it is told to clusters with a tier, Apache Kafka's with a plug-in of a few lines, as it has none itself.
        again: it is told a second time, with groups and topics of its own.
    """

    history: History
    era: int
    guarded: bool = False
    again: bool = False
    tiered: bool = False

    @property
    def kind(self) -> str:
        """The kind of clusters to which it is told."""
        return "guarded" if self.guarded else "tiered" if self.tiered else "open"

    @property
    def name(self) -> str:
        """The kind of history, its name, and the era."""
        kind = self.history.__module__.rpartition(".")[2].split("_")[0]
        return f"{kind}-{self.history.__name__}{'-guarded' * self.guarded}-{self.era}{'-again' * self.again}"


RUNS = [
    *(
        Run(history, era)
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
    ),
    *(
        Run(history, era)
        for module in (log_histories, codec_histories, topic_histories, access_histories)
        for history, eras in module.HISTORIES.items()
        for era in eras
    ),
    *(Run(history, era, guarded=True) for history, eras in access_histories.GUARDED.items() for era in eras),
    *(Run(history, era, tiered=True) for history, eras in tier_histories.HISTORIES.items() for era in eras),
]


OPEN_TURNS = 10
"""Of so many turns each compares a part of the usual histories; one more compares those with an authorizer, and another
those of topics with a tier."""
TURNS = OPEN_TURNS + 2


def runs_of_turn(turn: int) -> list[Run]:
    """The runs of one of CI's turns: some of each kind of history. Every run comes up once in `TURNS` turns."""
    turn %= TURNS
    if turn < OPEN_TURNS:
        return [run for run in RUNS if run.kind == "open"][turn::OPEN_TURNS]
    return [run for run in RUNS if run.kind == ("guarded" if turn == OPEN_TURNS else "tiered")]


@contextlib.contextmanager
def clusters(*, guarded: bool = False, tiered: bool = False) -> Iterator[Sides]:
    """Apache Kafka and Purgatorio, with the same topics; the names of the topics by their ids."""
    kafka, purgatorio = (KAFKA_SETTINGS | KAFKA_GUARD, OURS | OUR_GUARD) if guarded else (KAFKA_SETTINGS, OURS)
    with contextlib.ExitStack() as stack:
        classes = None
        if tiered:
            classes = stack.enter_context(classes_of("FolderRsm.java"))
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            kafka = kafka | KAFKA_TIER | {"rsm.config.dir": f"{folder}/kafka"}
            purgatorio = purgatorio | OUR_TIER | {"tier.location": f"{folder}/purgatorio"}
        theirs = stack.enter_context(apache_kafka(1, kafka, version=KAFKA_VERSION, classes=classes))
        ours = stack.enter_context(brokers(1, **purgatorio))
        yield _with_topics(theirs.addresses[0], 2), _with_topics(ours.addresses[0], 1)


def _with_topics(bootstrap: tuple[str, int], first_epoch: int) -> Side:
    wire = Wire(bootstrap)
    new = [CreatableTopic(name=name, num_partitions=count, replication_factor=1) for name, count in TOPICS.items()]
    created = wire.ask(CreateTopicsRequest(topics=new, timeout_ms=10_000))
    assert not any(topic.error_code for topic in created.topics), created
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        metadata = wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in TOPICS]), 10)
        if not any(topic.error_code for topic in metadata.topics):
            break
        assert time.monotonic() < deadline, metadata
        time.sleep(0.05)
    await_coordinators(wire, deadline)
    wire.close()
    return bootstrap, {bytes(topic.topic_id): topic.name for topic in metadata.topics}, first_epoch


def await_coordinators(wire: Wire, deadline: float) -> None:
    """Have the coordinators' topics created, and wait until all of their partitions are loaded."""
    keys = [f"any-{number}" for number in range(40)]  # of five partitions each has one
    for key in keys:
        for key_type in (0, 1):
            request = FindCoordinatorRequest(key=key, key_type=key_type)
            while (found := wire.ask(request, 2)).error_code:
                assert time.monotonic() < deadline, found
                time.sleep(0.05)
    of_shares = FindCoordinatorRequest(
        key_type=2, coordinator_keys=[f"any:{'A' * 22}:{number}" for number in range(40)]
    )
    while any(each.error_code for each in wire.ask(of_shares, 6).coordinators):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    described = DescribeGroupsRequest(groups=keys)
    while any(group.error_code in NOT_READY for group in wire.ask(described, 5).groups):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@dataclass
class Compared:
    """What the runs so far have compared.

    Attributes:
        runs: how many runs.
        answers: how many answers were compared, by API and version.
        found: the differences, a line each, by API and version.
    """

    runs: int = 0
    answers: dict[Place, int] = field(default_factory=dict)
    found: dict[Place, list[str]] = field(default_factory=dict)

    def add(self, run: Run, sides: Sides) -> list[str]:
        """Tell a history to both clusters; return the differences that are not known, a line each."""
        kafka, purgatorio = (_told(side, run) for side in sides)
        assert len(kafka.fields) == len(dict(kafka.fields)), "each step has a name of its own"
        for place in kafka.steps.values():
            self.answers[place] = self.answers.get(place, 0) + 1
        found = differences(kafka.fields, purgatorio.fields)
        for each in found:
            self.found.setdefault(_place(kafka, purgatorio, each), []).append(each)
        self.runs += 1
        return [each for each in found if not known(each)]


def known(difference: str) -> list[str]:
    """Return the patterns of the list that a difference has."""
    return [pattern for pattern in KNOWN if re.search(pattern, difference)]


def _place(kafka: Talk, purgatorio: Talk, difference: str) -> Place:
    """Return the API and the version of the step in which an answer differs."""
    steps = kafka.steps | purgatorio.steps
    step = max((each for each in steps if difference.startswith((f"{each}: ", f"{each}."))), key=len)
    return steps[step]


def _told(side: Side, run: Run) -> Talk:
    """Tell a history to one cluster."""
    bootstrap, topics, first_epoch = side
    group = f"{run.history.__module__.rpartition('.')[2]}-{run.history.__name__}-{run.era}{'-again' * run.again}"
    talk = Talk(bootstrap, group, run.era, VERSIONS.__getitem__, topics, first_epoch)
    try:
        run.history(talk)
    except Exception as error:
        error.add_note(f"after {talk.fields[-3:]}")
        raise
    finally:
        talk.close()
    return talk


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
