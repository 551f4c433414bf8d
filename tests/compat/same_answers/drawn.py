"""The drawn requests, asked: the same ones to Apache Kafka and to Purgatorio, by each kind of client.

A draw changes one field of a request that is right (`draws.py`), so that what the right one names must be there:
`Prepared` has it made before, by a client that may do everything. The answers are compared field by
field, with the order of their lists, and with whether there is a text where the texts may differ.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from purgatorio.client.wire import Wire
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.message import Message
from purgatorio.protocol.messages import sasl_authenticate, sasl_handshake
from purgatorio.protocol.primitives import ZERO_UUID
from tests.compat.same_answers.compare import (
    KAFKA_GUARD,
    KAFKA_SETTINGS,
    KAFKA_VERSION,
    OUR_GUARD,
    OURS,
    await_coordinators,
    differences,
)
from tests.compat.same_answers.draws import (
    LATER_ID,
    SEED,
    STRANGE_ID,
    Draw,
    compared_apis,
    compared_versions,
    draws,
    request_of,
)
from tests.compat.same_answers.known_drawn import KNOWN_DRAWN
from tests.compat.same_answers.preparing import MADE, TOPIC, Prepared
from tests.compat.same_answers.talk import LEFT_OUT, PATIENCE_SECONDS, Talk

from apache_kafka import apache_kafka  # isort: skip  # `talk` has put scripts/bench on the path
from processes import Brokers, brokers  # isort: skip

ANSWER_SECONDS: Final = 2.0
"""What is not answered so long is noted as not answered: it waits, by a limit that was drawn."""
ADMIN, USER, PASSWORD = "admin", "bob", "secret"
JAAS: Final = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    + " ".join(f'user_{name}="{PASSWORD}"' for name in (ADMIN, USER))
    + ";"
)
LOGIN: Final = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
}
SUPER_USERS: Final = {"super.users": f"User:ANONYMOUS;User:{ADMIN}"}
LISTENERS: Final = {"listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"}


@dataclass(frozen=True)
class Client:
    """A kind of client.

    Attributes:
        name: it is in the lines of differences.
        login: the user by which it logs in; empty if it does not.
        guarded: the cluster has an authorizer.
    """

    name: str
    login: str = ""
    guarded: bool = False

    @property
    def is_secured(self) -> bool:
        """Whether the cluster has a listener for logins, too."""
        return self.guarded or bool(self.login)


CLIENTS: Final = (
    Client("plain"),
    Client("login", ADMIN),
    Client("super user", guarded=True),
    Client("super user's login", ADMIN, guarded=True),
    Client("denied", USER, guarded=True),
)


@contextlib.contextmanager
def clusters(client: Client) -> Iterator[tuple[Brokers, Brokers]]:
    """Apache Kafka and Purgatorio, a broker each, of the kind that a client is for."""
    kafka: dict[str, object] = {**KAFKA_SETTINGS, "log.retention.ms": -1}
    ours: dict[str, object] = {**OURS, "log.retention.ms": -1}
    if client.is_secured:
        kafka |= LOGIN
        ours |= {**LISTENERS, **LOGIN}
    if client.guarded:
        kafka |= {**KAFKA_GUARD, **SUPER_USERS}
        ours |= {**OUR_GUARD, **SUPER_USERS}
    with apache_kafka(1, kafka, version=KAFKA_VERSION) as theirs, brokers(1, **ours) as mine:
        for side in (theirs, mine):
            wire = Wire(side.addresses[0])
            await_coordinators(wire, time.monotonic() + PATIENCE_SECONDS)
            wire.close()
        yield theirs, mine


class DrawnTalk(Talk):
    """The requests of one client to one cluster, each compared by itself; lists in their order.

    Args:
        cluster: a broker, with the listeners of both kinds.
        client: the kind of client.
        first_epoch: what the first member of a new consumer group has.
    """

    left_out = frozenset(LEFT_OUT) - {
        "error_message",
        "acknowledge_error_message",
        "batch_index_error_message",
        "records",
    }

    def __init__(self, cluster: Brokers, client: Client, first_epoch: int) -> None:
        self._cluster = cluster
        self._client = client
        super().__init__(cluster.addresses[0], TOPIC, 0, lambda key: range(1), {}, first_epoch)
        self.admin = Wire(cluster.addresses[0])

    def ordered(self, values: list[Any]) -> list[Any]:
        """Return the values by what they are about; the order in which they came is noted beside them."""
        return values if len(values) < 2 else _InOrder(values)

    def _coordinator(self) -> tuple[str, int]:
        return self._bootstrap

    def _connect(self, address: tuple[str, int]) -> Wire:
        if not self._client.login:
            return super()._connect(address)
        wire = super()._connect(self._cluster.listeners[0]["SASL_PLAINTEXT"])
        wire.ask(sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN"), 1)
        token = f"\0{self._client.login}\0{PASSWORD}".encode()
        answer = wire.ask(sasl_authenticate.SaslAuthenticateRequest(auth_bytes=token), 1)
        assert answer.error_code == 0, answer
        return wire

    def _plain(self, name: str, value: Any) -> Any:
        if name.endswith("error_message") and value:
            return "<text>"
        if name == "records" and isinstance(value, (bytes, bytearray, memoryview)):
            return f"<{len(value)} bytes>"
        if name == "topic_id" and bytes(value) not in self._topics and bytes(value) not in GIVEN_IDS:
            return "<new id>"
        if name == "base_offset" and value >= 0:
            return "<offset>"  # a partition that is named twice has two batches
        return super()._plain(name, value)

    def asked(self, key: ApiKey, version: int, draw: Draw, names: dict[str, Any]) -> list[tuple[str, object]]:
        """Ask a draw; return the fields of its answer."""
        self.fields.clear()
        self._made = {names["member_id"]: "<the member>"}
        self._producers.clear()
        self._given = {"", "a-strange", "z-strange", *(name for name in names.values() if isinstance(name, str))}
        self._given.discard(names["member_id"])
        self._topics = {names["topic_id"]: names["topic"]}
        wire = self._wires[-1]
        wire.socket.settimeout(ANSWER_SECONDS)
        request = request_of(key, version, draw, names)
        self._asked[key] = version
        try:
            answer = wire.ask(request, version)
        except OSError as error:
            wire.close()
            del self._wires[:]
            self._connect(self._bootstrap)
            return [("connection", "silent" if isinstance(error, TimeoutError) else "closed")]
        self._flatten("", _own(answer))
        return [(path.removeprefix(": "), value) for path, value in self.fields]

    def _flatten(self, path: str, value: Any) -> None:
        if isinstance(value, Message):
            value = self._plain("", value)
        if isinstance(value, _InOrder):
            self.fields.append((f"{path}.order", [_about(each) for each in value.came]))
        super()._flatten(path, value)


class _InOrder(list[Any]):
    """A list by what its elements are about, and as it came."""

    def __init__(self, came: list[Any]) -> None:
        super().__init__(sorted(came, key=lambda each: (repr(_about(each)), repr(each))))
        self.came = came


def _about(element: Any) -> object:
    """What an element of an answer is about: the first of its fields that says no error."""
    if not isinstance(element, dict):
        return element
    return next(
        (value for name, value in element.items() if "error" not in name and not isinstance(value, (list, dict))), ""
    )


GIVEN_IDS: Final = (ZERO_UUID, STRANGE_ID, LATER_ID)
OF_ALL: Final = {
    "ListGroupsResponse": ("groups", "group_id"),
    "ListTransactionsResponse": ("transaction_states", "transactional_id"),
    "ListConfigResourcesResponse": ("config_resources", "resource_name"),
    "MetadataResponse": ("topics", "name"),
    "DescribeTopicPartitionsResponse": ("topics", "name"),
    "DescribeAclsResponse": ("resources", "resource_name"),
    "DescribeUserScramCredentialsResponse": ("results", "user"),
}
"""The answers that tell of everything in a cluster, also of what other draws have left; and by what it is named."""


def _own(answer: Any) -> Any:
    """Take out of an answer what other draws have left, and how far a quorum is; of ApiVersions, all but the error."""
    name = type(answer).__name__
    if name == "ApiVersionsResponse":
        return type(answer)(error_code=answer.error_code)
    if name == "DescribeQuorumResponse":
        for partition in (each for topic in answer.topics for each in topic.partitions):
            partition.leader_epoch = partition.high_watermark = 0
            for replica in partition.current_voters:
                replica.log_end_offset = replica.last_fetch_timestamp = replica.last_caught_up_timestamp = 0
    if name in OF_ALL:
        items, named = OF_ALL[name]
        setattr(answer, items, [each for each in getattr(answer, items) if MADE not in (getattr(each, named) or "")])
    return answer


@dataclass
class Drawn:
    """What was asked and what differs.

    Attributes:
        requests: how many, by API and version.
        found: the differences, a line each, by API and version.
        clients: the kinds of clients that have asked.
    """

    requests: dict[tuple[ApiKey, int], int] = field(default_factory=dict)
    found: dict[tuple[ApiKey, int], list[str]] = field(default_factory=dict)
    clients: list[str] = field(default_factory=list)

    def ask(self, client: Client, sides: tuple[Brokers, Brokers], apis: Sequence[ApiKey] = ()) -> None:
        """Ask all draws by one kind of client."""
        self.clients.append(client.name)
        talks = [DrawnTalk(side, client, first) for side, first in zip(sides, (2, 1), strict=True)]
        prefix = MADE + re.sub(r"\W+", "-", client.name)
        made = [Prepared(talk.admin.ask, prefix) for talk in talks]
        try:
            for key in apis or compared_apis():
                for version in compared_versions(key):
                    differing: set[str] = set()
                    for draw in draws(key, version):
                        theirs, ours = (
                            talk.asked(key, version, draw, prepared.names(key))
                            for talk, prepared in zip(talks, made, strict=True)
                        )
                        found = _shortened(differences(theirs, ours))
                        if found and not differing.intersection(draw.label.split(", ")):
                            differing.add(draw.label)
                            found = [re.sub(rf"{MADE}[\w-]+", "made", line) for line in found]
                            said = f"{name_of(key)} {version}, {client.name}, {draw.label}"
                            self.found.setdefault((key, version), []).extend(f"{said}: {line}" for line in found)
                        self.requests[key, version] = self.requests.get((key, version), 0) + 1
        finally:
            for talk in talks:
                talk.close()
                talk.admin.close()

    def told(self, date: str, before: dict[str, Any]) -> str:
        """Return what was compared, and the patterns of `KNOWN_DRAWN` that were seen, as JSON.

        Args:
            before: the same of an earlier run, for the APIs that were not asked in this one.
        """
        apis: dict[str, dict[str, Any]] = {name_of(key): before.get(name_of(key), {}) for key in compared_apis()}
        apis |= {name_of(key): {"fields": {}, "versions": {}} for key, _ in self.requests}
        for (key, version), requests in sorted(self.requests.items()):
            seen = {pattern for line in self.found.get((key, version), ()) for pattern in known(line)}
            api = apis[name_of(key)]
            for path in sorted({path for draw in draws(key, version) for path in draw.paths}):
                first = api["fields"].get(path, f"{version}").partition("–")[0]
                api["fields"][path] = f"{first}–{version}"
            row = {"requests": requests, "known": [pattern for pattern in KNOWN_DRAWN if pattern in seen]}
            api["versions"][str(version)] = row
        clients = [client.name for client in CLIENTS]
        data = {"kafka": KAFKA_VERSION, "date": date, "seed": SEED, "clients": clients, "apis": apis}
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _shortened(found: list[str]) -> list[str]:
    """Leave out the fields of elements that one side has not: the length of their list says so."""
    shorter = [line.partition(".length: ")[0] for line in found if ".length: " in line]
    return [
        line
        for line in found
        if not re.search(r"(Kafka|Purgatorio) nothing", line) or not any(line.startswith(each) for each in shorter)
    ]


def ask_everywhere(drawn: Drawn, apis: Sequence[ApiKey] = ()) -> None:
    """Ask all draws, or those of some APIs, by all kinds of clients."""
    for _, group in groupby(CLIENTS, lambda client: (client.guarded, client.is_secured)):
        clients = list(group)
        with clusters(clients[0]) as sides:
            for client in clients:
                drawn.ask(client, sides, apis)


def known(difference: str) -> list[str]:
    """Return the patterns of the list that a difference has."""
    return [pattern for pattern in KNOWN_DRAWN if re.search(pattern, difference)]


def name_of(key: ApiKey) -> str:
    """Return an API's name, as Kafka writes it."""
    return key.name.title().replace("_", "")
