"""The settings of Apache Kafka's own brokers, from the table beside this file, and why some have no effect here.

The table is written by ``scripts/kafka_releases.py`` of the jars of the newest release. It is read when a setting is
named that Purgatorio does not declare, or when all settings are asked for: few processes need it.

A setting that nothing here reads is checked as Kafka checks it, kept, and shown as without effect: files, variables and
tools that set it go on so. Each has a reason, by which the documentation lists them. Kafka changes some while brokers
run (KIP-226). Of these, the settings that say which clients may connect cannot be changed here: a client must not
believe that they have changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from purgatorio.broker.config.address_settings import is_per_listener
from purgatorio.broker.config.declare import SettingsError
from purgatorio.broker.log.setting import MAX_INT, MAX_LONG, ConfigType, Setting

TABLE: Final = Path(__file__).with_name("kafka_settings.txt")
READ_ONLY: Final = "read-only"
ONE_BROKER: Final = "per-broker"
MAX_TEXT: Final = 1_000
"""The most characters of a text that is kept for nothing."""
_HIGHEST: Final = {ConfigType.INT: MAX_INT, ConfigType.LONG: MAX_LONG, ConfigType.SHORT: 2**15 - 1}


DOC: Final = "Accepted, without effect: "
REASONS: Final[Mapping[str, tuple[str, ...]]] = {
    "an elected leader is an in-sync or eligible replica; an operator may ask for an unclean election.": (
        "unclean.leader.",
    ),
    "a broker that stops gives its leaderships away.": ("controlled.shutdown.",),
    "there are no controllers: the brokers share a store of metadata.": (
        "controller.",
        "early.start.listeners",
        "initial.broker.registration.",
        "internal.metadata.",
        "metadata.",
        "process.roles",
        "request.timeout.ms",
        "sasl.mechanism.controller.protocol",
        "server.max.startup.",
        "unstable.",
    ),
    "the tier is an object store of the brokers' own, which has no such setting.": (
        "follower.fetch.last.tiered.",
        "remote.",
        "rlmm.config.",
        "rsm.config.",
    ),
    "logs are in memory, in one directory that has no files.": (
        "alter.log.dirs.",
        "cordoned.log.dirs",
        "log.dir",
        "log.flush.",
        "log.index.",
        "log.initial.task.delay.ms",
        "log.preallocate",
        "log.roll.jitter.",
        "log.segment.delete.delay.ms",
        "num.recovery.threads.",
        "num.replica.alter.log.dirs.threads",
        "replica.high.watermark.checkpoint.",
    ),
    "a broker works in one thread.": (
        "background.threads",
        "group.consumer.assignor.offload.enable",
        "group.coordinator.background.threads",
        "group.coordinator.threads",
        "group.share.assignor.offload.enable",
        "log.cleaner.",
        "num.io.threads",
        "num.network.threads",
        "num.replica.fetchers",
        "queued.max.requests",
        "share.coordinator.threads",
    ),
    "coordinators write each record at once, and load in steps of their own.": (
        "group.coordinator.append.",
        "group.coordinator.cached.",
        "offsets.load.",
        "offsets.topic.",
        "share.coordinator.",
        "transaction.state.log.",
    ),
    "where a broker compresses, it uses one level per codec.": ("compression.",),
    "partitions are assigned at once, by the assignors that are here.": (
        "group.consumer.assign",
        "group.consumer.max.assignment.",
        "group.consumer.min.assignment.",
        "group.consumer.regex.",
        "group.share.assignors",
    ),
    "there are no groups of Kafka Streams' own protocol.": ("group.streams.",),
    "the brokers time out and verify transactions, and forget producers, on their own.": (
        "add.partitions.to.txn.",
        "producer.id.expiration.check.",
        "transaction.abort.",
        "transaction.partition.",
        "transaction.two.",
    ),
    "/metrics has the numbers.": ("kafka.metrics.", "metric.", "metrics.", "telemetry."),
    "the system's own buffers, backlog and time limits count.": (
        "replica.socket.",
        "socket.",
    ),
    "throttles of replication count by windows of their own.": ("replication.quota.",),
    "consumers that name their rack read from a replica there, as with Kafka's RackAwareReplicaSelector.": (
        "replica.selector.class",
    ),
    "there is no Kerberos.": ("sasl.kerberos.",),
    "there are no delegation tokens.": ("delegation.token.",),
    "the brokers prove themselves to each other by a secret or by certificates.": (
        "sasl.client.",
        "sasl.login.",
        "sasl.mechanism.inter.broker.protocol",
        "sasl.oauthbearer.assertion.",
        "sasl.oauthbearer.client.",
        "sasl.oauthbearer.jwt.retriever.class",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.",
    ),
    "tokens are checked by rules of the same kind, and keys are read again as they are needed.": (
        "sasl.oauthbearer.allow.",
        "sasl.oauthbearer.jwks.",
    ),
    "TLS is OpenSSL's, with its ciphers, and certificates are PEM files, which have no store with a password.": (
        "security.providers",
        "ssl.",
    ),
    "classes of Java are not loaded.": (
        "alter.config.policy.",
        "client.quota.callback.",
        "config.providers",
        "create.topic.policy.",
        "group.share.dlq.manager.",
        "group.share.persister.",
        "principal.builder.class",
        "sasl.oauthbearer.jwt.validator.class",
        "sasl.server.callback.",
    ),
}
"""Why settings are without effect, and how their names begin; the first that fits counts."""
_SURPRISING: Final = (
    "alter.config.policy.class.name",
    "client.quota.callback.class",
    "create.topic.policy.class.name",
    "delegation.token.secret.key",
    "group.consumer.assignors",
    "principal.builder.class",
    "sasl.oauthbearer.jwt.validator.class",
    "sasl.server.callback.handler.class",
    "ssl.cipher.suites",
    "ssl.engine.factory.class",
    "unclean.leader.election.enable",
)
"""Settings that decide what clients may do, or which records are kept: it is said aloud that they have no effect."""
_OF_LISTENER: Final = "listener.name."
_MAX_PARTS: Final = 16
"""More parts between dots than the name of any setting and of its listener and mechanism has."""
_ANY_NAME: Final = ("config_providers_", "rlmm_config_", "rsm_config_")
"""Settings of classes, whose names only these know, begin so."""
_OF_CLASS: Final = Setting("", "", ConfigType.PASSWORD)
_OF_CLASS.annotation = "str"
_OF_CLIENTS: Final = ("listener", "principal.builder.", "sasl.jaas.", "sasl.mechanism.", "ssl.")
"""Dynamic configs of Kafka that say which clients may connect."""


class KafkaSetting(Setting):
    """A setting of Kafka's brokers, with the values that Kafka takes.

    Attributes:
        change: whether it may change while a broker runs: `READ_ONLY`, `ONE_BROKER`, or for all brokers, too.
        is_internal: whether Kafka describes it to no client.
        ignores_case: whether its choices may be written in upper or lower case.
        also: a number outside of its bounds that it may have, or None.
    """

    __slots__ = ("also", "change", "ignores_case", "is_internal")

    def __init__(self, dotted: str, kind: str, default: str, values: str, change: str, *internal: str) -> None:
        bounds, _, also = values.partition(",")
        low, is_number, high = bounds.partition("..")
        kind_of = ConfigType[kind]
        lowest = -1 - _HIGHEST[kind_of] if kind_of in _HIGHEST else None
        super().__init__(
            None,
            f"{DOC}{reason_of(dotted)}",
            kind_of,
            ge=_bound(low) if is_number else lowest,
            le=_bound(high) if high else _HIGHEST.get(kind_of),
            min_length=int(values == "+"),
            only=() if is_number or values in "+-" else values.lstrip("~").split("|"),
            names=(dotted,),
        )
        self.annotation = "str"
        self.name = dotted.replace(".", "_").replace("-", "_")
        self.change = change
        self.of_one_broker = change == ONE_BROKER
        self.is_internal = bool(internal)
        self.ignores_case = values.startswith("~")
        self.also = int(also) if also else None
        if default != "~":
            self.default = self.parsed(default[1:])

    def checked(self, value: object) -> Any:
        """Return a value that has its own type already; raises ValueError as `Setting.checked`."""
        if self.also is not None and value == self.also:
            return value
        value = super().checked(value)
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("must be a finite number")
        if isinstance(value, str):
            self._check_kept(value)
        return value

    def parse(self, text: str) -> Any:
        """Return the value of a text that a client has sent; raises ValueError as `Setting.parse`."""
        try:
            return self.read(text)
        except ValueError as error:
            raise ValueError(f"it {error}, not '{text}'") from None

    def _check_kept(self, text: str) -> None:
        if len(text) > MAX_TEXT:
            raise ValueError(f"must have at most {MAX_TEXT} characters")
        items = [each.strip() for each in text.split(",") if each.strip()] if self.type is ConfigType.LIST else [text]
        for item in items:
            if self.only and (item.upper() if self.ignores_case else item) not in self.only:
                raise ValueError(
                    f"must be {'any' if self.type is ConfigType.LIST else 'one'} of {', '.join(self.only)}"
                )


def reason_of(dotted: str) -> str:
    """Return why a setting has no effect, as a sentence's end; of one that has an effect it is not known."""
    return next((why for why, starts in REASONS.items() if dotted.startswith(starts)), "")


def _bound(text: str) -> float:
    return float(text) if "." in text else int(text)


@cache
def kafka_settings() -> Mapping[str, KafkaSetting]:
    """Return the settings of Kafka's brokers by their dotted names, sorted."""
    rows = (line.split(" ") for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return MappingProxyType({row[0]: KafkaSetting(*row) for row in rows})


@cache
def by_field_name() -> Mapping[str, KafkaSetting]:
    """Return the settings of Kafka's brokers by their names as fields: with underscores for dots."""
    return MappingProxyType({each.name: each for each in kafka_settings().values()})


def is_of_class(name: str) -> bool:
    """Return whether a setting, by its name as a field, is one that only a class of Kafka's users knows."""
    return name.startswith(_ANY_NAME)


def unread(name: str) -> Setting | None:
    """Return a setting of Kafka's brokers, by its name as a field; None if Kafka has none of this name."""
    if is_of_class(name):
        return _OF_CLASS
    return by_field_name().get(name)


def all_unread(declared: Mapping[str, Setting]) -> Iterator[KafkaSetting]:
    """Yield Kafka's settings that are not among those that are declared here."""
    known = {dotted for each in declared.values() for dotted in (each.dotted, *each.other_names)}
    return (each for dotted, each in kafka_settings().items() if dotted not in known)


def by_reason(declared: Mapping[str, Setting]) -> Mapping[str, list[KafkaSetting]]:
    """Return these settings by the reasons why they have no effect."""
    found: dict[str, list[KafkaSetting]] = {}
    for each in all_unread(declared):
        found.setdefault(reason_of(each.dotted), []).append(each)
    return found


def sorted_out(given: Mapping[str, Any], declared: Mapping[str, Setting], into: str) -> dict[str, Any]:
    """Return settings with those that have no effect, checked, in a mapping of their own named `into`.

    Raises:
        SettingsError: one of these is not Kafka's either, or has a value that Kafka does not take.
    """
    kept: dict[str, Any] = {}
    problems = []
    others = {name: value for name, value in given.items() if name not in declared}
    for name, value in {**given.get(into, {}), **others}.items():
        setting = unread(name)
        try:
            if setting is None:
                raise ValueError("is not a setting")
            kept[name] = setting.checked(value)
        except ValueError as error:
            problems.append(f"{name} {error}")
    if problems:
        raise SettingsError(problems)
    return {**{name: value for name, value in given.items() if name in declared}, into: kept}


def type_of(dotted: str) -> ConfigType | None:
    """Return the type of one of Kafka's settings, also where it is one listener's; None if there is no such name."""
    base = _base(dotted)
    return None if base is None else base.type


def is_fixed(dotted: str) -> bool:
    """Return whether a name is one of Kafka's settings, or one listener's that says which clients may connect."""
    base = _base(dotted)
    return base is not None and (base.dotted == dotted or is_per_listener(base.name))


def _base(dotted: str) -> KafkaSetting | None:
    if not dotted.startswith(_OF_LISTENER):
        return kafka_settings().get(dotted)
    parts = dotted.removeprefix(_OF_LISTENER).split(".")
    tails = (".".join(parts[first:]) for first in range(1, min(len(parts), _MAX_PARTS)))
    return next((kafka_settings()[tail] for tail in tails if tail in kafka_settings()), None)


def surprises(kept: Mapping[str, Any], of_listeners: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence about each setting that was given, has no effect, and might be relied on.

    Args:
        of_listeners: settings by their names as fields behind those of their listeners, and perhaps of a mechanism.
    """
    for dotted in _SURPRISING:
        setting = kafka_settings()[dotted]
        given = [kept[setting.name]] if setting.name in kept else []
        given += [value for name, value in of_listeners.items() if name.endswith(f"_{setting.name}")]
        if any(value not in (setting.default, "") for value in given):
            yield f"{dotted} has no effect here: {reason_of(dotted)}"


def unread_keys(declared: Mapping[str, Setting]) -> Mapping[str, Setting]:
    """Return those of these settings that can be changed while brokers run, by their dotted names."""
    return {
        each.dotted: each
        for each in all_unread(declared)
        if each.change != READ_ONLY and not each.dotted.startswith(_OF_CLIENTS)
    }
