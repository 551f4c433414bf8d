"""The settings that can be changed while brokers run (KIP-226), and a broker's settings in effect.

They are those of Kafka's dynamic broker configs that exist here, all defaults of topics and a few others, and those
that are accepted without effect (`purgatorio.broker.config.without_effect`). The changes are in the cluster's image:
they outlive a broker, but not the process that holds the metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Final

from purgatorio.broker.config.broker_settings import BrokerConfig
from purgatorio.broker.config.made_late import MadeLate
from purgatorio.broker.log.config import TOPIC_CONFIGS
from purgatorio.broker.log.config_keys import MAX_LONG, ConfigKey, ConfigType, config_text, number_key
from purgatorio.broker.metadata.image import ALL_BROKERS, ClusterImage
from purgatorio.broker.metadata.releases import release

_NUMBERS: Final = (
    "group_share_assignment_interval_ms",
    "log_cleaner_backoff_ms",
    "max_connection_creation_rate",
    "max_connections",
    "max_connections_per_ip",
    "producer_id_expiration_ms",
)
LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
_THROTTLES: Final = {
    FOLLOWER_RATE: "Bytes per second that the broker fetches of the replicas that topics list; 0 stops (KIP-73).",
    LEADER_RATE: "Bytes per second that followers read here of the replicas that topics list; 0 stops (KIP-73).",
    "replica.alter.log.dirs.io.max.bytes.per.second": "Accepted, without effect: there is one log directory.",
}
"""kafka-reassign-partitions sets these; they have no default that a broker starts with."""
_RATES: Final = (LEADER_RATE, FOLLOWER_RATE)


@cache
def dynamic_keys() -> Mapping[str, ConfigKey]:
    """Return the settings that can be changed while brokers run, by Kafka's dotted names."""
    from purgatorio.broker.config.without_effect import unread_keys  # they are in a table, which few processes read

    keys = [_key(name) for name in _NUMBERS]
    keys += [key for key in TOPIC_CONFIGS.values() if key.broker_name is not None]
    found = {key.broker_name or key.name: key for key in keys}
    for name, doc in _THROTTLES.items():
        found[name] = number_key(name, MAX_LONG, doc, low=0, high=MAX_LONG, kind=ConfigType.LONG)
    found.update(unread_keys(BrokerConfig.model_fields))
    return MappingProxyType(dict(sorted(found.items())))


def dynamic_keys_of(config: BrokerConfig) -> Mapping[str, ConfigKey]:
    """Return the settings that clients of a broker can change: those that the release of Kafka has."""
    return MadeLate(partial(_dynamic_keys_of, config))


def _dynamic_keys_of(config: BrokerConfig) -> Mapping[str, ConfigKey]:
    known = release(config.as_version)
    if known is None:
        return dynamic_keys()
    hidden = known.configs["broker"].absent
    return MappingProxyType({name: key for name, key in dynamic_keys().items() if name not in hidden})


def type_of(name: str) -> ConfigType | None:
    """Return the type of one of Kafka's settings, as `purgatorio.broker.config.without_effect.type_of` does."""
    from purgatorio.broker.config import without_effect

    return without_effect.type_of(name)


def is_fixed(name: str) -> bool:
    """Return whether no client may change a setting, as `purgatorio.broker.config.without_effect.is_fixed` says."""
    from purgatorio.broker.config import without_effect

    return without_effect.is_fixed(name)


def _key(field_name: str) -> ConfigKey:
    """Return the key of a setting that is a number and no default of topics."""
    field = BrokerConfig.model_fields[field_name]
    low, high = field.low, field.high
    assert low is not None
    assert high is not None
    assert isinstance(field.default, int)
    name = field_name.replace("_", ".")
    return number_key(name, field.default, field.description, low=int(low), high=int(high), kind=field.type)


class DynamicBrokerConfig:
    """A broker's settings in effect: its dynamic configs, over those of all brokers, over those of its start.

    Attributes:
        replication_rates: the bytes per second that may be replicated as a leader, and as a follower; None: any number.
    """

    def __init__(self, static: BrokerConfig) -> None:
        self.current = static
        self._static = static
        self.replication_rates: tuple[int | None, int | None] = (None, None)
        self._applied: Mapping[str, Mapping[str, str]] = {}

    def image_changed(self, image: ClusterImage) -> dict[str, Any]:
        """Adopt the dynamic configs of a new image; returns the settings in effect that have changed, by name."""
        if image.broker_configs is self._applied or not (image.broker_configs or self._applied):
            return {}
        self._applied = image.broker_configs
        texts = {**self._applied.get(ALL_BROKERS, {}), **self._applied.get(str(self._static.broker_id), {})}
        leader, follower = (dynamic_keys()[name].parse(texts[name]) if name in texts else None for name in _RATES)
        self.replication_rates = leader, follower
        before, self.current = self.current, self._static.model_copy(update=self._values(texts))
        return {name: value for name, value in self.current if value != getattr(before, name)}

    def _values(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of the dynamic configs that are settings, by the settings' names."""
        values = {}
        for name, text in texts.items():
            field_name = name.replace(".", "_")
            key = dynamic_keys().get(name)
            if key is not None and field_name in BrokerConfig.model_fields:
                value = key.parse(text.strip())
                values[field_name] = config_text(value) if isinstance(value, tuple) else value
        return values
