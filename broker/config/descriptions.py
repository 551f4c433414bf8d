"""Settings as users see them: in answers to DescribeConfigs, and as a configuration file."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from functools import cache, partial
from typing import Final, NamedTuple

from purgatorio.broker.config.broker_settings import BrokerConfig
from purgatorio.broker.config.cluster_settings import ClusterConfig
from purgatorio.broker.config.declare import MadeLate
from purgatorio.broker.config.listeners import ListenerAddress, listener_configs
from purgatorio.broker.log.setting import ConfigType, Setting, config_text
from purgatorio.broker.metadata.releases import release

_NOT_DESCRIBED: Final = frozenset(
    {
        "host",
        "port",
        "advertised_host",
        "advertised_port",
        "listeners",
        "advertised_listeners",
        "listener_name",
        "without_effect",
    }
)


_HIDDEN: Final = "(not shown)"
_UNREAD: Final = "without_effect"


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
    Passwords have no value, and settings of one listener are left out. Kafka's settings that have no effect are there
    with Kafka's defaults; those that Kafka describes to no client are left out.
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
        field = BrokerConfig.model_fields[name]
        found[field.dotted] = SettingValue(_addresses(config, name), False, ConfigType.LIST, field.doc)
    from purgatorio.broker.config.kafka_settings import all_unread  # with a table, which few ask for

    for each in all_unread(BrokerConfig.model_fields):
        if each.is_internal or each.dotted in hidden:
            continue
        value = config.without_effect.get(each.name, each.default)
        shown = None if value is None or each.type is ConfigType.PASSWORD else config_text(value)
        found[each.dotted] = SettingValue(shown, value == each.default, each.type, each.doc)
    return dict(sorted(found.items()))


@cache
def _described() -> tuple[tuple[str, str, object, ConfigType, str], ...]:
    """Return what does not depend on a setting's value: its name, dotted name, default, type and documentation."""
    return tuple(
        (name, dotted, field.default, field.type, field.doc)
        for name, field in BrokerConfig.model_fields.items()
        if name not in _NOT_DESCRIBED
        for dotted in (field.dotted, *field.other_names)
    )


def _addresses(config: BrokerConfig, setting: str) -> str:
    listeners = listener_configs(config)
    if setting == "listeners":
        return ",".join(str(ListenerAddress(each.name, each.host, each.port)) for each in listeners)
    return ",".join(str(ListenerAddress(each.name, *each.advertised)) for each in listeners if each.advertised)


def as_toml(config: ClusterConfig) -> str:
    """All settings and their documentation as a TOML file for `load_cluster_config`; defaults are commented out.

    Kafka's settings that have no effect stand at the end, by the reasons why.
    """
    lines: list[str] = []
    template = type(config)(brokers=config.brokers).broker
    for name, field in settings_of_process().items():
        if name == _UNREAD:
            continue
        own = name in ClusterConfig.model_fields
        value = getattr(config if own else config.broker, name)
        default = field.default if own else getattr(template, name)
        lines += [f"# {line}" for line in textwrap.wrap(field.doc, width=100)]
        lines += [f"{'# ' if value == default else ''}{name} ={_toml_value(_shown(field, value))}", ""]
    return "\n".join([*lines, *_unread_as_toml(config.broker.without_effect)])


def _unread_as_toml(given: Mapping[str, object]) -> list[str]:
    from purgatorio.broker.config.kafka_settings import by_reason, is_of_class

    lines = []
    for why, settings in by_reason(BrokerConfig.model_fields).items():
        lines.append(f"# Without effect: {why}")
        for each in settings:
            value = given.get(each.name, each.default)
            lines.append(f"{'' if each.name in given else '# '}{each.name} ={_toml_value(_shown(each, value))}")
        lines.append("")
    of_classes = [name for name in given if is_of_class(name)]
    return [*lines, *(f"{name} ={_toml_value(_HIDDEN)}" for name in of_classes), ""]


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
