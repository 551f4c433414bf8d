"""A fault rule as data: which requests it is about, and what is done to them.

The names are the same in Python, in HTTP's JSON, on the command line and in files::

    {"api": "Fetch", "topic": "orders", "error": "NOT_LEADER_OR_FOLLOWER", "count": 3}

A name that is absent matches any request. Requests between brokers are matched only by a rule that asks for them: by
`replica`, by the client id of a broker, or because only brokers send that API.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final

from purgatorio.broker.layers.faults.names import API_NAMES, api_name, api_named, error_named, nearest
from purgatorio.late import dataclass
from purgatorio.protocol.api import APIS
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.parts import names, topics_of

MAX_DELAY_MS: Final = 3_600_000
MAX_COUNT: Final = 1_000_000_000
MAX_TEXT: Final = 1_000
MAX_ERRORS: Final = 1_000
PYTHON_ONLY: Final = ("when", "reply")
"""The names whose values are functions; HTTP, the command line and files cannot have them."""
LIST_BROKERS: Final = (ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER)
"""APIs whose answers list the brokers."""

broker_of: Final = re.compile(r"broker-(\d+)-[a-z]+").fullmatch
"""Matches the client ids of connections between brokers."""


def is_from(client: str | None, replica: int | None) -> Callable[[str], bool]:
    """Return a predicate of client ids: whether the id is this client's, or that of a connection of this broker.

    Without either, it returns whether the id is a client's and not a broker's.
    """
    if client is not None:
        return lambda client_id: client_id == client
    if replica is not None:
        wanted = str(replica)
        return lambda client_id: (found := broker_of(client_id)) is not None and found[1] == wanted
    return lambda client_id: not client_id.startswith("broker-") or broker_of(client_id) is None


class FaultError(ValueError):
    """The rule is invalid; the message is a sentence for its author."""


RULE_WORDS: Final = {
    "api, version, client, topic, topic_id, partition, group, transactional_id, broker": "which requests",
    "replica": "those of this broker instead of those of clients",
    "nth, count, probability": "how often",
    "error, errors": "answer with this error, or with these in turn; the work is not done",
    "delay_ms, hold": "wait before the work, or until the rule is released",
    "answer_delay_ms": "do the work, and answer later",
    "disconnect": "before or after the work",
    "drop": "request or answer",
    "throttle_ms, corrupt, observe": "change the answer, or only count",
    "hide": "leave the broker of this id out of the answers to Metadata and DescribeCluster",
    "name": "for lists",
}
"""The meanings of the names, for the list of the HTTP API."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A fault rule; see `parse_rule`. The first group of attributes matches, the second one acts.

    Attributes:
        api: the API's name, as "OffsetFetch".
        version: the API's version.
        client: the client id.
        topic: a topic that the request names.
        topic_id: a topic's id, as base64, as Kafka prints it.
        partition: a partition that the request names.
        group: a group that the request names.
        transactional_id: a transactional id that the request names.
        broker: the id of the broker that is asked.
        replica: the id of the broker that asks: requests between brokers, a follower's fetches for one.
        nth: only this request of those that match, counted from 1.
        count: the most requests that the rule acts on; None: no limit.
        probability: the share of the requests that match; drawn from the cluster's seed.
        when: is called with the API's request message, and must return whether the rule acts. Python only.

        error: answer with this error code, and leave the work undone. If the rule names topics or partitions, only
            these are refused, and the rest of the request is answered normally.
        errors: answer with these error codes in turn; "NONE" answers normally. The number of them is the count.
        reply: is called with the request message, and returns the response message. Python only.
        delay_ms: wait before the work.
        answer_delay_ms: do the work, and answer so much later.
        hold: do not begin the work before `release` is called.
        disconnect: close the connection "before" or "after" the work.
        drop: leave the "request" undone, or do the work and drop the "answer"; the client is not answered.
        throttle_ms: say in the answer that the client is throttled so long.
        corrupt: damage the answer: a byte of the records, or the message's end.
        hide: leave the broker of this id out of the brokers in answers to Metadata and DescribeCluster; older rules act
            too.
        observe: only count; older rules act.
        name: a name for lists and reports.
    """

    api: str | None = None
    version: int | None = None
    client: str | None = None
    topic: str | None = None
    topic_id: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None
    broker: int | None = None
    replica: int | None = None
    nth: int | None = None
    count: int | None = None
    probability: float | None = None
    when: Callable[[Any], object] | None = None
    error: str | None = None
    errors: tuple[str, ...] = ()
    reply: Callable[[Any], Any] | None = None
    delay_ms: int = 0
    answer_delay_ms: int = 0
    hold: bool = False
    disconnect: str | None = None
    drop: str | None = None
    throttle_ms: int = 0
    corrupt: bool = False
    hide: int | None = None
    observe: bool = False
    name: str = ""

    @property
    def budget(self) -> int | None:
        """The most requests that the rule acts on; None: no limit."""
        return len(self.errors) if self.errors else 1 if self.nth is not None else self.count

    @property
    def names_partitions(self) -> bool:
        """Whether the rule is about some partitions of a request."""
        return self.topic is not None or self.topic_id is not None or self.partition is not None

    def as_data(self) -> dict[str, Any]:
        """Return the attributes that the rule sets; functions by their names."""
        told: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if value != each.default:
                told[each.name] = _name_of(value) if callable(value) else value
        if self.errors:
            told["errors"] = list(self.errors)
        return told

    def __str__(self) -> str:
        """The rule in one line: ``api=Fetch topic=orders error=NOT_LEADER_OR_FOLLOWER count=3``."""
        return " ".join(f"{name}={_shown(value)}" for name, value in self.as_data().items())


def parse_rule(data: Mapping[str, object], *, functions: bool = False) -> Rule:
    """Return the rule that these names and values describe; a value of None is as if it were absent.

    Args:
        functions: whether values may be functions, as in Python.

    Raises:
        FaultError: a name or a value is unknown, in which case the nearest one is named; or the rule can match no
            request, or says nothing to be done.
    """
    known = {each.name for each in fields(Rule)}
    values: dict[str, Any] = {}
    for name, value in data.items():
        if name not in known:
            raise FaultError(f"a fault rule has no {name!r}{nearest(name, known)}")
        if value is not None:
            values[name] = _value(name, value, functions)
    rule = Rule(**values)
    _check_matching(rule)
    _check_action(rule)
    return rule


def _value(name: str, value: object, functions: bool) -> object:
    if name in PYTHON_ONLY:
        if not functions:
            raise FaultError(f"{name!r} takes a function of Python: only a test in Python can give it")
        if not callable(value):
            raise FaultError(f"{name!r} must be a function")
        return value
    if name in _NUMBERS:
        return _number(name, value)
    if name in ("hold", "corrupt", "observe"):
        if not isinstance(value, bool):
            raise FaultError(f"{name!r} must be true or false")
        return value
    if name == "probability":
        return probability(value)
    if name == "errors":
        if not isinstance(value, (list, tuple)) or not 0 < len(value) <= MAX_ERRORS:
            raise FaultError(f"'errors' must be a list of 1 to {MAX_ERRORS} error names")
        return tuple(_error(each) for each in value)
    return _text(name, value)


def probability(value: object) -> float:
    """Return a probability.

    Raises:
        FaultError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise FaultError("'probability' must be a number above 0, of at most 1")
    return float(value)


_NUMBERS: Final[Mapping[str, tuple[int, int]]] = {
    "version": (0, 2**15 - 1),
    "partition": (0, 2**31 - 1),
    "broker": (0, 2**31 - 1),
    "replica": (0, 2**31 - 1),
    "hide": (0, 2**31 - 1),
    "nth": (1, MAX_COUNT),
    "count": (1, MAX_COUNT),
    "delay_ms": (0, MAX_DELAY_MS),
    "answer_delay_ms": (0, MAX_DELAY_MS),
    "throttle_ms": (0, MAX_DELAY_MS),
}
_CHOICES: Final[Mapping[str, tuple[str, str]]] = {"disconnect": ("before", "after"), "drop": ("request", "answer")}


def _number(name: str, value: object) -> int:
    least, most = _NUMBERS[name]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise FaultError(f"{name!r} must be a whole number from {least} to {most}")
    return value


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise FaultError(f"{name!r} must be text of at most {MAX_TEXT} letters")
    if name == "api":
        return known_api(value)
    if name == "error":
        return _error(value)
    if name in _CHOICES and value not in _CHOICES[name]:
        raise FaultError(f"{name!r} must be {' or '.join(_CHOICES[name])}")
    if name == "topic_id":
        topic_id_bytes(value)
    return value


def known_api(name: str) -> str:
    """Return an API's name as Kafka spells it.

    Raises:
        FaultError: there is none of this name; the nearest one is named.
    """
    found = api_named(name)
    if found is None:
        raise FaultError(f"there is no API {name!r}{nearest(name, API_NAMES)}")
    return api_name(found)


def _error(value: object) -> str:
    if not isinstance(value, str):
        raise FaultError("an error is given by its name, as text")
    found = error_named(value)
    if found is None:
        raise FaultError(f"there is no error {value!r}{nearest(value, ErrorCode.__members__)}")
    return found.name


def topic_id_bytes(text: str) -> bytes:
    """Return the 16 bytes of a topic id that is written as Kafka prints it, as base64 without padding.

    Raises:
        FaultError: it is none.
    """
    try:
        raw = base64.urlsafe_b64decode(text + "==")
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != 16:
        raise FaultError("'topic_id' must be 22 letters of base64, as Kafka prints it")
    return raw


def _check_matching(rule: Rule) -> None:
    """Refuse a rule that can match no request."""
    if rule.nth is not None and rule.count is not None:
        raise FaultError("give 'nth' or 'count', not both: 'nth' acts on one request")
    if rule.errors and (rule.error or rule.count is not None or rule.nth is not None):
        raise FaultError("'errors' has its own count; give no 'error', 'count' or 'nth' beside it")
    if rule.replica is not None and rule.client is not None:
        raise FaultError("give 'replica' or 'client', not both: brokers have client ids of their own")
    if rule.api is None:
        return
    key = api_named(rule.api)
    assert key is not None, "its name was looked up before"
    if key not in APIS:
        raise FaultError(f"the brokers do not answer {rule.api}")
    if rule.version is not None and rule.version not in APIS[key].versions:
        versions = APIS[key].versions
        raise FaultError(f"{rule.api} has no version {rule.version}, only {versions[0]} to {versions[-1]}")
    if rule.names_partitions and not topics_of(key):
        raise FaultError(f"{rule.api} requests name no topics: the rule can never match")
    if rule.group is not None and not names(key, Entity.GROUP_ID):
        raise FaultError(f"{rule.api} requests name no group: the rule can never match")
    if rule.transactional_id is not None and not names(key, Entity.TRANSACTIONAL_ID):
        raise FaultError(f"{rule.api} requests name no transactional id: the rule can never match")


def _check_action(rule: Rule) -> None:
    """Refuse a rule that does nothing, or two things of which only one can be done."""
    answers = [name for name in ("error", "errors", "reply", "disconnect", "drop", "corrupt") if getattr(rule, name)]
    waits = [name for name in ("delay_ms", "answer_delay_ms", "hold") if getattr(rule, name)]
    if rule.observe or rule.hide is not None:
        _check_passing(rule, acts=bool(answers or waits or rule.throttle_ms))
        return
    if len(answers) > 1 or len(waits) > 1:
        raise FaultError(f"give only one of {' and '.join(map(repr, answers if len(answers) > 1 else waits))}")
    if rule.throttle_ms and answers and answers != ["corrupt"]:
        raise FaultError(f"'throttle_ms' needs the broker's own answer, which {answers[0]!r} replaces")
    if rule.answer_delay_ms and (rule.disconnect or rule.drop):
        raise FaultError(f"'answer_delay_ms' needs an answer, which {answers[0]!r} takes away")
    if not (answers or waits or rule.throttle_ms):
        raise FaultError(
            "the rule does nothing; give error, errors, reply, delay_ms, answer_delay_ms, hold, disconnect, drop, "
            "throttle_ms, corrupt, hide or observe"
        )


def _check_passing(rule: Rule, *, acts: bool) -> None:
    """Refuse a rule that lets older ones act, and does itself what only one can do."""
    if acts or (rule.observe and rule.hide is not None):
        raise FaultError(f"a rule that {'observes' if rule.observe else 'hides'} does nothing else")
    if rule.hide is not None and rule.api is not None and api_named(rule.api) not in LIST_BROKERS:
        raise FaultError(f"the answers to {rule.api} list no brokers; 'hide' is about Metadata and DescribeCluster")


def _name_of(function: Callable[[Any], object]) -> str:
    name: str = getattr(function, "__name__", "")
    return name if name.isidentifier() else "a function"  # a lambda's name is <lambda>


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, (list, tuple)) else str(value)
