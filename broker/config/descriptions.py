"""Settings as users see them: in answers to DescribeConfigs, and as a configuration file."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from functools import cache, partial
from typing import Final, NamedTuple

from purgatorio.broker.api.releases import release
from purgatorio.broker.config.broker_settings import BrokerConfig
from purgatorio.broker.config.cluster_settings import ClusterConfig
from purgatorio.broker.config.listeners import ListenerAddress, listener_configs
from purgatorio.broker.config.made_late import MadeLate
from purgatorio.broker.config.setting import Setting
from purgatorio.broker.log.config_keys import ConfigType, config_text

_ADDRESS_FIELDS: Final = frozenset(
    {"host", "port", "advertised_host", "advertised_port", "listeners", "advertised_listeners", "listener_name"}
)


_HIDDEN: Final = "(not shown)"


class SettingValue(NamedTuple):
    """One setting as DescribeConfigs shows it; `value` is in Kafka's text form (None: not set)."""

    value: str | None
    is_default: bool
    type: ConfigType
    doc: str


def settings_of_process() -> dict[str, Setting]:
    """All settings of a process, by name: the cluster's own, then those that its brokers share."""
    own = ClusterConfig.model_fields
    return {**own, **{name: field for name, field in BrokerConfig.model_fields.items() if name not in own}}


class BrokerDescription(MadeLate[SettingValue]):
    """All settings of a broker under Kafka's dotted names, sorted, as DescribeConfigs answers them.

    Host and port appear as Kafka's ``listeners`` and ``advertised.listeners``, the id as ``broker.id`` and ``node.id``.
    Passwords have no value, and settings of one listener are left out.
    """

    def __init__(self, config: BrokerConfig) -> None:
        super().__init__(partial(_describe, config))


def _describe(config: BrokerConfig) -> Mapping[str, SettingValue]:
    found: dict[str, SettingValue] = {}
    known = release(config.as_version)
    hidden = frozenset() if known is None else known.configs["broker"].absent
    others = config.other_defaults({"as_version": config.as_version})
    for name, dotted, declared, kind, doc in _described():
        if dotted in hidden:
            continue
        value, default = getattr(config, name), others.get(name, declared)
        shown = None if value is None or kind is ConfigType.PASSWORD else config_text(value)
        found[dotted] = SettingValue(shown, value == default, kind, doc)
    for name in ("listeners", "advertised_listeners"):
        doc = BrokerConfig.model_fields[name].description
        found[name.replace("_", ".")] = SettingValue(_addresses(config, name), False, ConfigType.LIST, doc)
    return dict(sorted(found.items()))


@cache
def _described() -> tuple[tuple[str, str, object, ConfigType, str], ...]:
    """Return what is told of each setting whatever its value is: name, dotted name, default, type, doc."""
    rows = []
    for name, field in BrokerConfig.model_fields.items():
        if name in _ADDRESS_FIELDS:
            continue
        dotted = "broker.rack" if name == "rack" else name.replace("_", ".")
        rows.append((name, dotted, field.default, field.type, field.description))
        if name == "broker_id":
            rows.append((name, "node.id", *rows[-1][2:]))
    return tuple(rows)


def _addresses(config: BrokerConfig, setting: str) -> str:
    listeners = listener_configs(config)
    if setting == "listeners":
        return ",".join(str(ListenerAddress(each.name, each.host, each.port)) for each in listeners)
    return ",".join(str(ListenerAddress(each.name, *each.advertised)) for each in listeners if each.advertised)


def as_toml(config: ClusterConfig) -> str:
    """All settings and their documentation as a TOML file for `load_cluster_config`; defaults are commented out."""
    lines: list[str] = []
    template = type(config)(brokers=config.brokers).broker
    for name, field in settings_of_process().items():
        own = name in ClusterConfig.model_fields
        value = getattr(config if own else config.broker, name)
        default = field.default if own else getattr(template, name)
        lines += [f"# {line}" for line in textwrap.wrap(field.description, width=100)]
        lines += [f"{'# ' if value == default else ''}{name} ={_toml_value(_shown(field, value))}", ""]
    return "\n".join(lines)


def _shown(field: Setting, value: object) -> object:
    """Return a value without passwords, also those among the settings of listeners."""
    if isinstance(value, dict):
        return {key: _HIDDEN if key.endswith(_secrets()) else each for key, each in value.items()}
    return _HIDDEN if field.type is ConfigType.PASSWORD and value is not None else value


@cache
def _secrets() -> tuple[str, ...]:
    """The names of the settings that hold passwords."""
    fields = settings_of_process().items()
    return tuple(name for name, field in fields if field.type is ConfigType.PASSWORD)


def _toml_value(value: object) -> str:
    """A value as TOML writes it, after a space; nothing where it is not set."""
    if value is None:
        return ""
    if isinstance(value, dict):
        return f" {{{', '.join(f'{key} ={_toml_value(each)}' for key, each in value.items())}}}"
    return f" {json.dumps(value, ensure_ascii=False)}"
