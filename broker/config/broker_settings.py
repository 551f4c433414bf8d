"""The settings of one broker: defaults, bounds and documentation.

Settings carry Kafka's names in snake_case (``log.retention.ms`` is ``log_retention_ms``) and Kafka's defaults; where a
default differs, or a setting is Purgatorio's own, its documentation says so. Names end in their unit. The defaults of
topic configs come from the table in `purgatorio.broker.log.config`. `BrokerConfig` has them all; a file beside this one
declares those of each kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from purgatorio.broker.config.address_settings import AddressSettings
from purgatorio.broker.config.coordinator_settings import CoordinatorSettings
from purgatorio.broker.config.declare import SettingsError
from purgatorio.broker.config.memory_shares import MAX_REQUEST_BYTES
from purgatorio.broker.config.replica_settings import ReplicaSettings
from purgatorio.broker.log.setting import MAX_INT, ConfigType, number, other, text
from purgatorio.broker.metadata.releases import LATEST, releases

_KIB: Final = 1024
_MIB: Final = 1024 * 1024
_OTHER_UNITS: Final = (
    ("log_retention_ms", "log_retention_minutes", 60_000),
    ("log_retention_ms", "log_retention_hours", 3_600_000),
    ("log_roll_ms", "log_roll_hours", 3_600_000),
    ("leader_imbalance_check_interval_ms", "leader_imbalance_check_interval_seconds", 1_000),
)
"""Settings, by which others they can be set, and how many of their units are one of those; the first one set counts."""
_UNREAD: Final = "without_effect"
_FOLLOW_OTHERS: Final = frozenset({"remote.log.manager.copier.thread.pool.size"})
"""Settings whose default was -1 in 3.9, the value of another setting, which was 10 as their own default is now."""


class BrokerConfig(CoordinatorSettings, ReplicaSettings, AddressSettings):
    """The settings of one broker. Defaults are those of the release of Kafka as which it answers."""

    @classmethod
    def other_defaults(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the defaults of the release of Kafka as which the broker answers, where the newest one has others."""
        known = releases().get(str(given["as_version"])) if given.get("as_version", LATEST) != LATEST else None
        changed = {} if known is None else known.configs["broker"].defaults
        fields = {name: cls.model_fields.get(name.replace(".", "_")) for name in changed if name not in _FOLLOW_OTHERS}
        return {field.name: field.read(changed[name]) for name, field in fields.items() if field is not None}

    @classmethod
    def _filled(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Sort Kafka's settings out that have no effect, leave controllers out, and count times in one unit."""
        if _UNREAD in given or any(name not in cls.model_fields for name in given):
            from purgatorio.broker.config.kafka_settings import sorted_out

            given = _without_controllers(sorted_out(given, cls.model_fields, _UNREAD))
        found = {}
        for name, other_name, factor in _OTHER_UNITS:
            value = given.get(other_name)
            if not isinstance(value, int) or given.get(name) is not None or name in found:
                continue
            if value == 0:
                raise SettingsError([f"{other_name} must be at least 1, or -1: for ever"])
            found[name] = max(-1, value * factor)
        if given.get("tier_location") is not None:
            found["remote_log_storage_system_enable"] = True
        return {**given, **found} if found else given

    def _check(self) -> None:
        if "classic" not in self.group_coordinator_rebalance_protocols:
            raise SettingsError(["group_coordinator_rebalance_protocols must have classic, as in Kafka"])
        shortest, longest = self.log_cleaner_min_compaction_lag_ms, self.log_cleaner_max_compaction_lag_ms
        if shortest > longest:
            more = f"more than log_cleaner_max_compaction_lag_ms, {longest}"
            raise SettingsError([f"log_cleaner_min_compaction_lag_ms is {shortest}, {more}"])
        if 0 <= self.queued_max_request_bytes < _MIB:
            raise SettingsError([f"queued_max_request_bytes must be at least {_MIB}, or -1: a share of memory_bytes"])
        if self.remote_log_storage_system_enable and self.tier_location is None:
            raise SettingsError(["remote_log_storage_system_enable is true, but there is no tier: set tier_location"])
        self._check_memory()

    def _check_memory(self) -> None:
        if {"memory_bytes", "log_memory_bytes"} <= self.model_fields_set and self.log_memory_bytes > self.memory_bytes:
            what = f"log_memory_bytes is {self.log_memory_bytes}, but it is a part of memory_bytes"
            raise SettingsError([f"{what}, {self.memory_bytes}"])

    # Purgatory
    producer_purgatory_purge_interval_requests: int = number(
        1_000,
        "Completed operations that may stay in the Produce purgatory's watch lists before they are removed.",
        ge=1,
    )
    fetch_purgatory_purge_interval_requests: int = number(
        1_000,
        "Completed operations that may stay in the Fetch purgatory's watch lists before they are removed.",
        ge=1,
    )
    share_fetch_purgatory_purge_interval_requests: int = number(
        1_000,
        "Completed operations that may stay in the ShareFetch purgatory's watch lists before they are removed.",
        ge=1,
    )
    delete_records_purgatory_purge_interval_requests: int = number(
        1,
        "Completed operations that may stay in the DeleteRecords purgatory's watch lists before they are removed.",
        ge=1,
    )

    # Connections and requests
    max_connections: int = number(
        20_000,
        "Connections of all clients together; the broker closes further ones at once. Kafka's default is no limit; "
        "a process lowers it so that its brokers share three quarters of the files that it may open, at most.",
        ge=1,
        dynamic=True,
    )
    max_connections_per_ip: int = number(
        15_000,
        "Connections from one IP address; the broker closes further ones at once. Kafka's default is no limit. Where "
        "open files lower max.connections, the default is three quarters of that.",
        ge=1,
        dynamic=True,
    )
    max_connections_per_ip_overrides: str = text(
        "",
        "Addresses with another number of connections, such as 127.0.0.1:200,192.0.2.1:5. Kafka resolves names, too.",
        pattern=r"^([0-9a-fA-F.:]+:[0-9]{1,9}(,[0-9a-fA-F.:]+:[0-9]{1,9})*)?$",
    )
    max_connection_creation_rate: int = number(
        MAX_INT,
        "Connections that the broker accepts per second; it reads further ones up to a second later.",
        ge=1,
        dynamic=True,
    )
    connections_max_idle_ms: int = number(
        600_000, "Idle time after which the broker closes a connection.", ge=1, long=True
    )
    socket_request_max_bytes: int = number(
        MAX_REQUEST_BYTES,
        "Largest request; the broker closes the connection of a larger one. Unless it is set, a broker with little "
        "memory allows a quarter of memory.bytes, from 16 MiB on.",
        ge=_KIB,
    )
    queued_max_request_bytes: int = number(
        -1,
        "Bytes of the requests that the broker receives or works on, of all connections together; past it the broker "
        "stops reading. For Kafka -1 is no limit; here it is an eighth of memory.bytes, at most 512 MiB.",
        ge=-1,
        long=True,
    )
    max_in_flight_requests_per_connection: int = number(
        1_000,
        "Purgatorio's own: unanswered requests of one connection, past which the broker stops reading from it.",
        ge=1,
    )
    fetch_max_bytes: int = number(
        55 * _MIB, "Bytes in an answer to any fetch, even if the client asks for more.", ge=_KIB
    )
    max_request_partition_size_limit: int = number(
        2_000, "Partitions in one answer to DescribeTopicPartitions, at most; more than 2000 count as 2000.", ge=1
    )
    max_incremental_fetch_session_cache_slots: int = number(
        1_000, "Fetch sessions that the broker keeps; clients without one name all their partitions each time.", ge=0
    )

    # Quotas
    quota_window_num: int = number(
        11, "Samples over which the rates of client quotas are measured; the newest of them is filling.", ge=2, le=1_000
    )
    quota_window_size_seconds: int = number(1, "Time that each of these samples takes.", ge=1, le=3_600)
    controller_quota_window_num: int = number(
        11, "Samples for the quotas of controller mutations: a client's bucket holds as many.", ge=2, le=1_000
    )
    controller_quota_window_size_seconds: int = number(1, "Time that each of these samples takes.", ge=1, le=3_600)

    # Kafka's further settings
    without_effect: dict[str, Any] = other(
        {},
        "Settings of Kafka's brokers that have no effect here; each is given by its own name and listed with a reason.",
        ConfigType.PASSWORD,  # there may be some among them
    )

    # Shutdown
    shutdown_grace_ms: int = number(
        2_000,
        "Purgatorio's own: time that a stopping broker has to answer parked requests and close its connections.",
    )


def _without_controllers(given: dict[str, Any]) -> dict[str, Any]:
    """Return settings without the listeners of controllers, which are not here, and without these listeners' own."""
    names = str(given[_UNREAD].get("controller_listener_names") or "").split(",")
    controllers = [name.strip().upper() for name in names if name.strip()]
    if not controllers:
        return given
    changed: dict[str, Any] = {}
    for setting in ("listeners", "advertised_listeners"):
        if isinstance(text := given.get(setting), str):
            entries = text.split(",")
            changed[setting] = ",".join(
                each for each in entries if each.partition("://")[0].strip().upper() not in controllers
            )
    if changed.get("listeners") == "":
        raise SettingsError(["listeners has those of controllers only, and there are no controllers here"])
    own = given.get("listener_name")
    if isinstance(own, Mapping):
        starts = tuple(f"{name.lower()}_" for name in controllers)
        changed["listener_name"] = {name: value for name, value in own.items() if not name.startswith(starts)}
    return {**given, **changed}
