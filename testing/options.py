"""The options of a test's cluster: brokers, racks, settings by Kafka's names, topics, fault rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from purgatorio.late import dataclass
from purgatorio.testing.client_security import USERS_SETTING, ClientSecurity, client_security

if TYPE_CHECKING:
    from purgatorio.broker.config import ClusterConfig
    from purgatorio.broker.layers.faults import AnyFault
    from purgatorio.broker.metadata.acls import AclBinding

FaultSource: TypeAlias = "Mapping[str, object] | str | PathLike[str]"
"""A fault rule as data, or the path of a file of rules."""

TierPlace: TypeAlias = "bool | str | PathLike[str]"
"""Whether there is a tier, or where."""
IN_MEMORY: Final = "memory:"

TEST_PROFILE: Final[Mapping[str, str]] = {
    "port": "0",
    "admin_port": "0",
    "group_min_session_timeout_ms": "1",
    "group_consumer_heartbeat_interval_ms": "100",
    "leader_imbalance_check_interval_seconds": "300",
}
"""Settings that differ from a broker's own: any free ports; the short sessions that tests want, which Kafka's minimum
of 6 s would refuse; and Kafka's five minutes, not a second, until a leader that a test has moved is moved back."""

WITHOUT_RACKS: Final[Mapping[str, str]] = {"replica_fetch_wait_max_ms": "2000"}
"""Where consumers read from leaders alone, followers ask less often: `clock.advance` takes half of the time so. In a
cluster with racks, followers serve consumers (KIP-392), and learn what they may show by their next fetch."""

ONE_PROCESS: Final = "that is for brokers in the test's own process"
OWN_NAMES: Final = ("brokers", "racks", "topics", "faults", "tls", "sasl", "acls", "processes", "tier")
"""The options of a cluster that are no settings of brokers."""

AUTHORIZER: Final = "authorizer_class_name"
CONFIGS_KEPT: Final = 64
"""Configurations that are kept parsed; most tests of a run ask for the same few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """The options of a test's cluster.

    Attributes:
        brokers: how many; their ids are 1 and up.
        racks: the rack of each broker, in turn, as a list or as text with commas; empty: none has one.
        topics: names of topics to create at the start, with their number of partitions.
        faults: fault rules from the start on, and again after each reset: the names and values of `Kafka.fault`, or
            the path of a TOML file that ``purgatorio cluster --faults`` takes; or a list of these.
        settings: broker settings, by Kafka's names with dots or underscores; text is read as in a configuration file.
        tls: whether clients speak TLS, with certificates of an authority that ends with this process.
        sasl: the SASL mechanism by which clients log in; None: they do not. The users are alice with the password
            alice-secret and bob with bob-secret, or those of the setting `sasl_users`; with OAUTHBEARER anybody.
        acls: access control lists from the start on, and again after each reset: "allow User:alice READ,WRITE topic
            orders" (see `purgatorio.broker.security.acl_text`). If they are given, be it an empty list, the cluster has
            an authorizer, and what no ACL allows is refused.
        processes: whether each broker is a process of its own, which `Kafka.kill` ends with SIGKILL and `Kafka.pause`
            with SIGSTOP. Snapshots, resets, fault rules, networks and security are for brokers in the test's process.
        tier: whether topics with remote.storage.enable have their older records in an object store: True in memory,
            which needs nothing installed and is for brokers in the test's process; or the path of a folder, or a URL as
            of the setting `tier_location`, which needs the extra `tier`.
    """

    brokers: int = 3
    racks: Sequence[str] = ()
    topics: Mapping[str, int] = field(default_factory=dict)
    faults: FaultSource | Sequence[FaultSource] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    tls: bool = False
    sasl: str | None = None
    acls: Sequence[str] | None = None
    processes: bool = False
    tier: TierPlace = False

    def check_processes(self) -> None:
        """Refuse what a cluster whose brokers are processes does not begin with.

        Raises:
            ValueError: there is such a thing; the message names it.
        """
        given = {"faults": self.faults, "tls": self.tls, "sasl": self.sasl, "acls": self.acls is not None}
        given["tier=True"] = self.tier is True
        wrong = [name for name, value in given.items() if value]
        if wrong:
            raise ValueError(f"{wrong[0]} and processes=True do not go together: {ONE_PROCESS}")

    def config(self) -> ClusterConfig:
        """Return the cluster's configuration: free ports on loopback.

        Raises:
            ValueError: a setting is unknown, in which case the nearest one is named, or its value is not allowed.
        """
        topics: object = self.topics
        if not isinstance(topics, Mapping):
            raise ValueError(f"topics are names with numbers of partitions, {{'orders': 3}}, not {topics!r}")
        settings = {**self.security.broker_settings(), **dict(_texts(self.settings))}
        if self.acls is not None and AUTHORIZER not in map(canonical, settings):
            settings[AUTHORIZER] = "StandardAuthorizer"
        racks = tuple(self.racks.split(",") if isinstance(self.racks, str) else self.racks)
        if self.tier is not False:
            settings["tier_location"] = IN_MEMORY if self.tier is True else str(self.tier)
        return _config(self.brokers, racks, tuple(settings.items()))

    @property
    def security(self) -> ClientSecurity:
        """How clients speak to the cluster.

        Raises:
            ValueError: `sasl` is no mechanism, or the users are in another form.
        """
        named = {canonical(name): value for name, value in self.settings.items()}
        return client_security(self.tls, self.sasl, named.get(USERS_SETTING))

    def access(self) -> list[AclBinding]:
        """Return the access control lists.

        Raises:
            ValueError: a text is none; the message says why.
        """
        if not self.acls:
            return []
        from purgatorio.broker.security.acl_text import parse_acls

        return parse_acls(self.acls)

    def rules(self) -> list[AnyFault]:
        """Return the fault rules.

        Raises:
            ValueError: a file cannot be read, or a rule cannot be; the message says which, and what is wrong.
        """
        sources = [self.faults] if isinstance(self.faults, (str, PathLike, Mapping)) else self.faults
        if not sources:
            return []
        from purgatorio.broker.layers.faults.rule_file import parse_rules, read_rules

        found: list[AnyFault] = []
        place = 0
        for source in sources:
            if isinstance(source, (str, PathLike)):
                found += read_rules(Path(source))
            else:
                place += 1
                found += parse_rules([source], "faults", functions=True, first=place)
        return found


def canonical(name: str) -> str:
    """Return a setting's name as Python writes it: Kafka's has dots, and some like dashes."""
    return name.replace(".", "_").replace("-", "_").lower()


def text(value: object) -> str:
    """Return a setting's value as a configuration file has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(map(text, value))
    return str(value)


def _texts(settings: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((name, text(value)) for name, value in settings.items() if value is not None)


@lru_cache(CONFIGS_KEPT)
def _config(brokers: int, racks: tuple[str, ...], settings: Iterable[tuple[str, str]]) -> ClusterConfig:
    from purgatorio.broker.config.sources import ConfigError, load_cluster_config

    own = {"brokers": str(brokers), **({"racks": text(racks)} if racks else WITHOUT_RACKS)}
    try:
        return load_cluster_config(settings={**TEST_PROFILE, **own, **dict(settings)})
    except ConfigError as error:
        raise ValueError("; ".join(error.problems)) from None
