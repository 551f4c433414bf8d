"""Configs as clients see them: value, source, synonyms and documentation."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.log.config import TOPIC_CONFIGS, ConfigKey


class ResourceType(enum.IntEnum):
    """The types of config resources; Kafka's other types (8, 16, 32) do not exist here."""

    TOPIC = 2
    BROKER = 4


class ConfigSource(enum.IntEnum):
    """The source of a value (KIP-226)."""

    TOPIC_CONFIG = 1
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A config that a value can come from, with the value that it has there."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config of a topic or a broker.

    Attributes:
        synonyms: all configs that the value can come from; the first one is in effect.
        type: a code of `purgatorio.broker.log.config.ConfigType`.
    """

    name: str
    synonyms: tuple[ConfigSynonym, ...]
    read_only: bool
    type: int
    doc: str

    @property
    def value(self) -> str | None:
        """The value in effect."""
        return self.synonyms[0].value

    @property
    def source(self) -> ConfigSource:
        """The source of the value in effect."""
        return self.synonyms[0].source


def topic_entries(admin: AdminContext, configs: Mapping[str, str]) -> list[ConfigEntry]:
    """Return all configs of a topic; `configs` are those that the topic sets."""
    defaults = admin.topics.log.to_strings()
    entries = []
    for key in TOPIC_CONFIGS.values():
        synonyms = [_default_synonym(admin, key, defaults[key.name])]
        if key.name in configs:
            synonyms.insert(0, ConfigSynonym(key.name, configs[key.name], ConfigSource.TOPIC_CONFIG))
        entries.append(ConfigEntry(key.name, tuple(synonyms), read_only=False, type=key.type, doc=key.doc))
    return entries


def _default_synonym(admin: AdminContext, key: ConfigKey, value: str) -> ConfigSynonym:
    """Return the default of a topic config: the broker config for it, or the topic config's own default."""
    name = admin.topic_synonyms.get(key.name, key.name)
    setting = admin.broker_configs.get(name)
    is_default = setting is None or setting.is_default
    return ConfigSynonym(name, value, ConfigSource.DEFAULT_CONFIG if is_default else ConfigSource.STATIC_BROKER_CONFIG)


def broker_entries(admin: AdminContext) -> list[ConfigEntry]:
    """Return all configs of this broker; all are read-only."""
    entries = []
    for name, setting in admin.broker_configs.items():
        source = ConfigSource.DEFAULT_CONFIG if setting.is_default else ConfigSource.STATIC_BROKER_CONFIG
        synonym = ConfigSynonym(name, setting.value, source)
        entries.append(ConfigEntry(name, (synonym,), read_only=True, type=setting.type, doc=setting.doc))
    return entries
