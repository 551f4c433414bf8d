"""The settings of one process: its brokers, its admin HTTP, its log, and a `BrokerConfig` that its brokers share."""

from __future__ import annotations

from typing import Any, Final, Literal

from purgatorio.broker.config.address_settings import is_loopback
from purgatorio.broker.config.authentication import check_authentication
from purgatorio.broker.config.broker_settings import BrokerConfig
from purgatorio.broker.config.brokers_tls import check_brokers_tls
from purgatorio.broker.config.declare import Settings, SettingsError, part
from purgatorio.broker.config.listeners import counted_up, listener_configs
from purgatorio.broker.log.setting import ConfigType, flag, number, other, text

_MIN_TOKEN_CHARS: Final = 16
MAX_BROKERS: Final = 100
"""The most brokers of one process."""
MIN_SESSION_TIMEOUT_ON_ETCD_MS: Final = 1_000
_ON_ETCD: Final = {
    "default_replication_factor": 3,
    "broker_session_timeout_ms": 3_000,
    "broker_heartbeat_interval_ms": 500,
    "cluster_port": 0,
}
"""Settings with a store, unless they are set: etcd counts leases in whole seconds, two of them at least, and a
heartbeat is a request of a millisecond."""
_EVERY_ADDRESS: Final = frozenset({"0.0.0.0", "::"})
_CLUSTER_ADDRESS_FIELDS: Final = frozenset({"host", "port", "advertised_host"})


class ClusterConfig(Settings):
    """The settings of one process: its brokers, its admin HTTP, its log.

    Broker number i (from 0) gets id ``broker.broker_id + i`` and port ``port + i`` (0 stays 0); see `broker_configs`.
    """

    brokers: int = number(3, "Brokers in this process.", ge=1, le=MAX_BROKERS)
    host: str = text("127.0.0.1", "The address to listen on for Kafka clients.", min_length=1)
    port: int = number(9092, "The first broker's port, the next ones follow; 0 takes any free ones.", le=65535)
    advertised_host: str | None = text(
        None,
        "The host that brokers advertise to clients. Not set: `host`, or localhost if that is every interface.",
        min_length=1,
    )
    racks: str | None = text(
        None,
        "The racks of the brokers, with commas between, e.g. a,b,c; if there are fewer racks than brokers, brokers get "
        "them in turn. A consumer that names its rack (client.rack) reads from a replica there.",
        pattern=r"^[^,\s]+(,[^,\s]+)*$",
    )
    admin_host: str | None = text(
        None, "The address of the admin HTTP: page, metrics, health. Not set: `host`.", min_length=1
    )
    admin_port: int = number(9644, "The port of the admin HTTP; 0 takes any free one.", le=65535)
    admin_auth: Literal["token", "none"] = text(
        "token",
        "none: every client of the admin HTTP may do everything. token: requests need admin.token, if it is set or the "
        "address can be reached from other machines.",
    )
    admin_token: str | None = other(
        None,
        "The token that requests to the admin HTTP need. Not set: a new one, which is printed, if other machines can "
        "reach the address; otherwise none.",
        ConfigType.PASSWORD,
        min_length=_MIN_TOKEN_CHARS,
    )
    admin_read_token: str | None = other(
        None,
        "A second token, with which requests to the admin HTTP may only read: for Prometheus.",
        ConfigType.PASSWORD,
        min_length=_MIN_TOKEN_CHARS,
    )
    metrics_per_partition: bool = flag(
        False,
        "Give /metrics series for each partition. Without it each topic has series, with the sums of its partitions; "
        "topics past the first 500 of a broker share one. A scrape of 5,000 partitions has 9 MB if each has series.",
    )
    record_delays: bool = flag(
        False,
        "Create the topic __delayed_operations. Brokers record each delayed operation there when it ends; "
        "purgatorio-delays makes a report of it.",
    )
    store: str | None = other(
        None,
        "Where the metadata of a cluster on several hosts is, for `purgatorio serve`: "
        "etcd://10.0.0.1:2379,10.0.0.2:2379/PREFIX, with USER:PASSWORD@ before the hosts if etcd asks for them; "
        "etcds:// with TLS (?ca=FILE behind it names who signed etcd's certificate). Not set: in this process.",
        ConfigType.PASSWORD,
        min_length=1,
    )
    cluster_secret_file: str | None = text(
        None,
        "The file with the secret by which the brokers of a cluster on several hosts know each other, the same for "
        "all of them; see security.inter.broker.protocol.",
        min_length=1,
    )
    log_format: Literal["console", "json"] = text(
        "console", "Format of log lines: for people (console) or machines (json)."
    )
    log_level: Literal["debug", "info", "warning", "error"] = text(
        "info", "The least severe level of log lines that is written."
    )
    broker: BrokerConfig = part(BrokerConfig)
    """The settings that all brokers of this process share."""

    @classmethod
    def _filled(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Give the template what it does not set: new topics have 3 replicas, or one per broker if there are fewer."""
        template = given.get("broker") or {}
        shared = template.model_dump(exclude_unset=True) if isinstance(template, BrokerConfig) else dict(template)
        if misplaced := sorted(_CLUSTER_ADDRESS_FIELDS & shared.keys()):
            text = f"{misplaced[0]} belongs to the cluster, not to the settings that its brokers share"
            raise SettingsError([text])
        brokers = given.get("brokers", cls.model_fields["brokers"].default)
        if given.get("store"):
            shared = {**_ON_ETCD, **shared}
        elif "default_replication_factor" not in shared and isinstance(brokers, int):
            shared["default_replication_factor"] = max(1, min(3, brokers))
        return {**given, "broker": shared}

    def _check(self) -> None:
        try:
            self._check_consistent()
        except ValueError as error:
            raise SettingsError([str(error)]) from None

    def _check_consistent(self) -> None:
        """Refuse settings that contradict each other."""
        self._check_store()
        if self.store is None and self.broker.default_replication_factor > self.brokers:
            wanted = self.broker.default_replication_factor
            raise ValueError(f"default_replication_factor is {wanted}, but the number of brokers is {self.brokers}")
        for name, first in (("port", self.port), ("advertised_port", self.broker.advertised_port)):
            if first and first + self.brokers - 1 > 65535:
                raise ValueError(f"{name} is {first}, but {self.brokers} ports from there on do not fit below 65536")
        if self.broker.broker_heartbeat_interval_ms >= self.broker.broker_session_timeout_ms:
            raise ValueError("broker_heartbeat_interval_ms must be shorter than broker_session_timeout_ms")
        if self.admin_port and self.port <= self.admin_port < self.port + self.brokers:
            raise ValueError(f"admin_port is {self.admin_port}, which is also the port of a broker")
        if self.admin_read_token is not None and self.admin_token is None and self.admin_auth == "token":
            raise ValueError("admin_read_token is set, but admin_token is not: no change would be possible")
        self._check_listeners()
        check_authentication(self.broker_configs()[0])

    def _check_store(self) -> None:
        """Refuse what a cluster on several hosts cannot use, and what only such a cluster has."""
        if self.store is None:
            if self.broker.cluster_port is not None:
                raise ValueError("cluster_port is for a cluster on several hosts: set store, too")
            return
        if self.broker.security_inter_broker_protocol == "PLAINTEXT":
            known = "set SASL_PLAINTEXT, SSL or SASL_SSL"
            raise ValueError(
                f"security.inter.broker.protocol is PLAINTEXT, with which hosts could not recognize each other: {known}"
            )
        if self.brokers != 1:
            raise ValueError("store is for one broker of several hosts: start each with `purgatorio serve`")
        if self.broker.broker_session_timeout_ms < MIN_SESSION_TIMEOUT_ON_ETCD_MS:
            least = f"at least {MIN_SESSION_TIMEOUT_ON_ETCD_MS} on etcd, which counts whole seconds"
            raise ValueError(f"broker_session_timeout_ms must be {least}")
        if self.host in _EVERY_ADDRESS and self.advertised_host is None:
            raise ValueError(f"host is {self.host}, to which no other host can connect: set advertised_host as well")
        needs_token = self.admin_token is None and self.admin_auth == "token" and not is_loopback(self.admin_address[0])
        check_brokers_tls(
            self.broker_config(0), has_secret=self.cluster_secret_file is not None, needs_token=needs_token
        )

    def _check_listeners(self) -> None:
        """Refuse listeners that cannot be used, and two that would have the same port."""
        taken: dict[int, str] = {}
        for broker in self.broker_configs():
            for each in listener_configs(broker):
                if each.port in taken:
                    raise ValueError(
                        f"the listeners {taken[each.port]} and {each.name} of broker {broker.broker_id} have the same "
                        f"port {each.port}: each broker's are one higher, so leave room for {self.brokers} brokers"
                    )
                if each.port:
                    taken[each.port] = f"{each.name} of broker {broker.broker_id}"

    def broker_configs(self) -> list[BrokerConfig]:
        """The configuration of each broker of this process, ids and ports counted up from the first."""
        return [self.broker_config(index) for index in range(self.brokers)]

    def broker_config(self, index: int) -> BrokerConfig:
        """The configuration of broker number `index` (from 0), which may be one that is added later."""
        first = self.broker
        racks = self.racks.split(",") if self.racks is not None else [first.rack]
        return counted_up(first, index).model_copy(
            update={
                "broker_id": first.broker_id + index,
                "rack": racks[index % len(racks)],
                "host": self.host,
                "port": self.port and self.port + index,
                "advertised_host": self.advertised_host,
                "advertised_port": first.advertised_port and first.advertised_port + index,
            }
        )

    @property
    def admin_address(self) -> tuple[str, int]:
        """Host and port that the admin HTTP listens on."""
        return self.admin_host or self.host, self.admin_port
