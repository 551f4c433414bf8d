"""Configs as clients see them: value, source, synonyms and documentation."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.log.config import TOPIC_CONFIGS
from purgatorio.broker.log.setting import ConfigType, config_text
from purgatorio.broker.metadata.controller.elections import MIN_IN_SYNC_REPLICAS
from purgatorio.broker.metadata.image import ALL_BROKERS
from purgatorio.late import dataclass

_CUSTOM: Final = "Kept for clients: it is not one of Kafka's configs."


class ConfigResourceType(enum.IntEnum):
    """The types of config resources; Kafka's other types (8, 16) do not exist here."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class ConfigSource(enum.IntEnum):
    """The source of a value (KIP-226)."""

    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    GROUP_CONFIG = 8


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
        type: a code of `purgatorio.broker.log.config.ConfigType`; 0 if it is not known.
        is_sensitive: whether its value is kept from clients.
    """

    name: str
    synonyms: tuple[ConfigSynonym, ...]
    read_only: bool
    type: int
    doc: str
    is_sensitive: bool = False

    @property
    def value(self) -> str | None:
        """The value in effect."""
        return self.synonyms[0].value

    @property
    def source(self) -> ConfigSource:
        """The source of the value in effect."""
        return self.synonyms[0].source


def topic_entries(admin: AdminContext, configs: Mapping[str, str]) -> list[ConfigEntry]:
    """Return all configs of a topic, with defaults for those that `configs`, its own, lacks."""
    defaults = admin.topics.log.to_strings()
    entries = []
    for key in TOPIC_CONFIGS.values():
        if key.dotted in admin.topics.hidden:
            continue
        name = admin.topic_synonyms.get(key.dotted, key.dotted)
        synonyms = [*_dynamic_synonyms(admin, name), _start_synonym(admin, name, defaults[key.dotted])]
        if key.dotted in configs:
            synonyms.insert(0, ConfigSynonym(key.dotted, configs[key.dotted], ConfigSource.TOPIC_CONFIG))
        entries.append(ConfigEntry(key.dotted, tuple(synonyms), read_only=False, type=key.type, doc=key.doc))
    return entries


def broker_entries(admin: AdminContext) -> list[ConfigEntry]:
    """Return all configs of this broker; those that cannot be changed while it runs are read-only."""
    entries = []
    for name, setting in admin.broker_configs.items():
        synonyms = (*_dynamic_synonyms(admin, name), _start_synonym(admin, name, setting.value))
        read_only = name not in admin.dynamic_keys
        entries.append(ConfigEntry(name, synonyms, read_only=read_only, type=setting.type, doc=setting.doc))
    for name, key in admin.dynamic_keys.items():
        # Those without a value at the start are listed only if they are set, as in Kafka.
        if name not in admin.broker_configs and (found := _dynamic_synonyms(admin, name)):
            entries.append(ConfigEntry(name, tuple(found), read_only=False, type=key.type, doc=key.doc))
    configs = admin.store.image.broker_configs
    custom = dict.fromkeys((*configs.get(str(admin.broker_id), {}), *configs.get(ALL_BROKERS, {})))
    entries += [
        _custom_entry(admin, name)
        for name in custom
        if name not in admin.broker_configs and name not in admin.dynamic_keys
    ]
    return entries


def _custom_entry(admin: AdminContext, name: str, *, own: bool = True) -> ConfigEntry:
    """Return a dynamic config that is not among Kafka's; only of one listener's it is known that it is no password."""
    kind = admin.type_of(name)
    is_sensitive = kind is None or kind == ConfigType.PASSWORD
    synonyms = _dynamic_synonyms(admin, name)[0 if own else -1 :]
    if is_sensitive:
        synonyms = [replace(each, value=None) for each in synonyms]
    return ConfigEntry(name, tuple(synonyms), read_only=True, type=kind or 0, doc=_CUSTOM, is_sensitive=is_sensitive)


def cluster_entries(admin: AdminContext) -> list[ConfigEntry]:
    """Return the dynamic configs that are set for all brokers."""
    entries = []
    for name in sorted({MIN_IN_SYNC_REPLICAS, *admin.store.image.broker_configs.get(ALL_BROKERS, {})}):
        key = admin.dynamic_keys.get(name)
        if key is None:
            entries.append(_custom_entry(admin, name, own=False))
            continue
        synonym = _dynamic_synonyms(admin, name)[-1]
        entries.append(ConfigEntry(name, (synonym,), read_only=False, type=key.type, doc=key.doc))
    return entries


def group_entries(admin: AdminContext, group_id: str) -> list[ConfigEntry]:
    """Return all configs of a group, which need not exist; those that it does not set are this broker's for groups."""
    configs = admin.store.image.group_configs.get(group_id, {})
    entries = []
    for key in admin.group_keys.values():
        synonyms = [_start_synonym(admin, key.broker_name or key.dotted, config_text(key.default))]
        if key.dotted in configs:
            synonyms.insert(0, ConfigSynonym(key.dotted, configs[key.dotted], ConfigSource.GROUP_CONFIG))
        entries.append(ConfigEntry(key.dotted, tuple(synonyms), read_only=False, type=key.type, doc=key.doc))
    return entries


def static_configs(admin: AdminContext) -> dict[str, str]:
    """Return the configs with which this broker started; "" for those that are not set."""
    return {name: setting.value or "" for name, setting in admin.broker_configs.items()}


def _dynamic_synonyms(admin: AdminContext, name: str) -> list[ConfigSynonym]:
    """Return the dynamic values of a broker config: this broker's own, then that of all brokers.

    All brokers always have one of min.insync.replicas: Kafka writes it when a cluster begins to keep eligible leader
    replicas (KIP-966), so that it never differs between brokers.
    """
    levels = (
        (str(admin.broker_id), ConfigSource.DYNAMIC_BROKER_CONFIG),
        (ALL_BROKERS, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
    )
    configs = admin.store.image.broker_configs
    found = [ConfigSynonym(name, configs[key][name], source) for key, source in levels if name in configs.get(key, {})]
    if not found and name == MIN_IN_SYNC_REPLICAS:
        at_start = str(admin.topics.log.min_insync_replicas)
        found.append(ConfigSynonym(name, at_start, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG))
    return found


def _start_synonym(admin: AdminContext, name: str, value: str | None) -> ConfigSynonym:
    """Return the value that a config has had since the start: the setting's, or the default."""
    setting = admin.broker_configs.get(name)
    is_default = setting is None or setting.is_default
    return ConfigSynonym(name, value, ConfigSource.DEFAULT_CONFIG if is_default else ConfigSource.STATIC_BROKER_CONFIG)
