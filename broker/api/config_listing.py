"""Configs as clients see them: value, where it comes from, and what it means."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.log.config import TOPIC_CONFIGS, ConfigKey


class ResourceType(enum.IntEnum):
    """What configs belong to; the other types that Kafka knows (8, 16, 32) do not exist here."""

    TOPIC = 2
    BROKER = 4


class ConfigSource(enum.IntEnum):
    """Where a value comes from (KIP-226)."""

    TOPIC_CONFIG = 1
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A place that a value can come from, and what it says there."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config of a topic or a broker.

    Attributes:
        synonyms: all places that it can come from, the one in effect first.
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
        """Where the value in effect comes from."""
        return self.synonyms[0].source


def topic_entries(admin: AdminContext, configs: Mapping[str, str]) -> list[ConfigEntry]:
    """All configs of a topic that sets `configs` itself."""
    defaults = admin.topics.log.to_strings()
    entries = []
    for key in TOPIC_CONFIGS.values():
        synonyms = [_default_synonym(admin, key, defaults[key.name])]
        if key.name in configs:
            synonyms.insert(0, ConfigSynonym(key.name, configs[key.name], ConfigSource.TOPIC_CONFIG))
        entries.append(ConfigEntry(key.name, tuple(synonyms), read_only=False, type=key.type, doc=key.doc))
    return entries


def _default_synonym(admin: AdminContext, key: ConfigKey, value: str) -> ConfigSynonym:
    """What holds for topics that do not set this config: a setting of the broker, if there is one for it."""
    name = admin.topic_synonyms.get(key.name, key.name)
    setting = admin.broker_configs.get(name)
    is_default = setting is None or setting.is_default
    return ConfigSynonym(name, value, ConfigSource.DEFAULT_CONFIG if is_default else ConfigSource.STATIC_BROKER_CONFIG)


def broker_entries(admin: AdminContext) -> list[ConfigEntry]:
    """All settings of this broker; none of them can be changed while it runs."""
    entries = []
    for name, setting in admin.broker_configs.items():
        source = ConfigSource.DEFAULT_CONFIG if setting.is_default else ConfigSource.STATIC_BROKER_CONFIG
        synonym = ConfigSynonym(name, setting.value, source)
        entries.append(ConfigEntry(name, (synonym,), read_only=True, type=setting.type, doc=setting.doc))
    return entries
