"""The settings that can be changed while brokers run (KIP-226), and a broker's settings in effect.

They are those of Kafka's dynamic broker configs that exist here, all defaults of topics and a few others, and those
that are accepted without effect (`purgatorio.broker.config.kafka_settings`). The changes are in the cluster's image:
they outlive a broker, but not the process that holds the metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Final

from purgatorio.broker.config.broker_settings import BrokerConfig
from purgatorio.broker.config.declare import MadeLate
from purgatorio.broker.log.config import TOPIC_CONFIGS
from purgatorio.broker.log.setting import MAX_LONG, ConfigType, Setting, config_text, number
from purgatorio.broker.metadata.image import ALL_BROKERS, ClusterImage
from purgatorio.broker.metadata.releases import release

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
def dynamic_keys() -> Mapping[str, Setting]:
    """Return the settings that can be changed while brokers run, by Kafka's dotted names."""
    from purgatorio.broker.config.kafka_settings import unread_keys  # they are in a table, which few processes read

    found = {each.dotted: each for each in BrokerConfig.model_fields.values() if each.is_dynamic}
    found.update({each.broker_name: each for each in TOPIC_CONFIGS.values() if each.broker_name is not None})
    found.update({name: number(MAX_LONG, doc, long=True, names=(name,)) for name, doc in _THROTTLES.items()})
    found.update(unread_keys(BrokerConfig.model_fields))
    return MappingProxyType(dict(sorted(found.items())))


def dynamic_keys_of(config: BrokerConfig) -> Mapping[str, Setting]:
    """Return the settings that clients of a broker can change: those that the release of Kafka has."""
    return MadeLate(partial(_dynamic_keys_of, config))


def _dynamic_keys_of(config: BrokerConfig) -> Mapping[str, Setting]:
    known = release(config.as_version)
    if known is None:
        return dynamic_keys()
    hidden = known.configs["broker"].absent
    return MappingProxyType({name: key for name, key in dynamic_keys().items() if name not in hidden})


def type_of(name: str) -> ConfigType | None:
    """Return the type of one of Kafka's settings, as `purgatorio.broker.config.kafka_settings.type_of` does."""
    from purgatorio.broker.config import kafka_settings

    return kafka_settings.type_of(name)


def is_fixed(name: str) -> bool:
    """Return whether no client may change a setting, as `purgatorio.broker.config.kafka_settings.is_fixed` says."""
    from purgatorio.broker.config import kafka_settings

    return kafka_settings.is_fixed(name)


class DynamicBrokerConfig:
    """A broker's settings in effect: its dynamic configs, over those of all brokers, over those of its start.

    Attributes:
        static: those of its start.
        replication_rates: the bytes per second that may be replicated as a leader, and as a follower; None: any number.
    """

    def __init__(self, static: BrokerConfig) -> None:
        self.current = static
        self.static = static
        self.replication_rates: tuple[int | None, int | None] = (None, None)
        self._applied: Mapping[str, Mapping[str, str]] = {}

    def image_changed(self, image: ClusterImage) -> dict[str, Any]:
        """Adopt the dynamic configs of a new image; returns the settings in effect that have changed, by name."""
        if image.broker_configs is self._applied or not (image.broker_configs or self._applied):
            return {}
        self._applied = image.broker_configs
        texts = {**self._applied.get(ALL_BROKERS, {}), **self._applied.get(str(self.static.broker_id), {})}
        leader, follower = (dynamic_keys()[name].parse(texts[name]) if name in texts else None for name in _RATES)
        self.replication_rates = leader, follower
        before, self.current = self.current, self.static.model_copy(update=self._values(texts))
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
