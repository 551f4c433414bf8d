"""Decisions that change the configs of topics, brokers and groups, and the edits that requests ask for."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from purgatorio.broker.log.config import TOPIC_CONFIGS, InvalidConfig, LogConfig
from purgatorio.broker.log.setting import ConfigType, Setting, config_text
from purgatorio.broker.metadata.controller.elections import MIN_IN_SYNC_REPLICAS, min_in_sync_replicas, settler
from purgatorio.broker.metadata.controller.result import DecisionRefused, TopicResult, done, refused
from purgatorio.broker.metadata.controller.settings import TopicSettings
from purgatorio.broker.metadata.image import ALL_BROKERS, ClusterImage, Topic
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode

MAX_CUSTOM_CHARS: Final = 16 * 1024
"""The most characters that the names and values of a broker's configs may have together that Kafka does not know."""
MAX_CONFIGURED_GROUPS: Final = 10_000
"""The most groups that have configs of their own; they stay when a group goes, as in Kafka."""
MAX_GROUP_ID: Final = 1_000
"""The longest id, in characters, of a group with configs of its own."""
_PROTOCOLS: Final = ("consumer", "share", "streams")


class ConfigOperation(enum.IntEnum):
    """The operations on a config, with the codes of IncrementalAlterConfigs (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One operation on one config.

    Attributes:
        operation: a code of ConfigOperation; unknown codes are refused.
        value: the new value; for APPEND and SUBTRACT, comma-separated list items; ignored for DELETE.
    """

    name: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True)
class ResourceConfigs:
    """The configs of one resource before an edit.

    Attributes:
        keys: what is known about each config, by its dotted name.
        defaults: the values of those that are not set, as text, by dotted names.
    """

    configs: Mapping[str, str]
    keys: Mapping[str, Setting]
    defaults: Mapping[str, str]


ConfigEdit = Callable[[ResourceConfigs], Mapping[str, str | None]]
"""Returns the configs to set, whose names and values are yet to be checked. Raises DecisionRefused."""


def replacing(configs: Mapping[str, str | None], named: Iterable[str] = ()) -> ConfigEdit:
    """Return the edit that sets exactly these configs; all others return to their defaults.

    Each must have a value: one without is INVALID_REQUEST.

    Args:
        named: their names as the request has them, if it may have one twice, which is INVALID_REQUEST, too.
    """

    def edit(before: ResourceConfigs) -> Mapping[str, str | None]:
        _check_once(named)
        for name, value in configs.items():
            if value is None:
                raise DecisionRefused(ErrorCode.INVALID_REQUEST, f"Config '{name}' has no value.")
        return configs

    return edit


def _check_once(names: Iterable[str]) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise DecisionRefused(ErrorCode.INVALID_REQUEST, f"Config '{twice[0]}' is changed more than once.")


def changing(changes: Sequence[ConfigChange]) -> ConfigEdit:
    """Return the edit that changes some configs and leaves the others as they are."""

    def edit(before: ResourceConfigs) -> Mapping[str, str | None]:
        _check_once(change.name for change in changes)
        configs = dict(before.configs)
        for change in changes:
            _apply(configs, change, before)
        return configs

    return edit


def _apply(configs: dict[str, str], change: ConfigChange, before: ResourceConfigs) -> None:
    if change.operation == ConfigOperation.DELETE:
        configs.pop(change.name, None)
        return
    if change.value is None:
        raise DecisionRefused(ErrorCode.INVALID_REQUEST, f"Config '{change.name}' has no value.")
    if change.operation == ConfigOperation.SET:
        configs[change.name] = change.value
    elif change.operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        configs[change.name] = _changed_list(before, change.name, change.value, change.operation)
    else:
        raise DecisionRefused(ErrorCode.INVALID_REQUEST, f"There is no config operation {change.operation}.")


def _changed_list(before: ResourceConfigs, name: str, value: str, operation: int) -> str:
    """Return a list config with items added or removed; the default's items if the resource does not set it."""
    key = before.keys.get(name)
    if name not in before.defaults if key is None else key.type is not ConfigType.LIST:
        raise DecisionRefused(ErrorCode.INVALID_CONFIG, f"Config '{name}' is not a list.")
    items = _items(before.configs[name] if name in before.configs else before.defaults.get(name, ""))
    given = _items(value)
    if operation == ConfigOperation.APPEND:
        items += [item for item in dict.fromkeys(given) if item not in items]
    else:
        items = [item for item in items if item not in given]
    return ",".join(items)


def _items(value: str) -> list[str]:
    return [item for item in (part.strip() for part in value.split(",")) if item]


def check_configs(configs: Mapping[str, str | None], settings: TopicSettings) -> dict[str, str]:
    """Check all configs that are set for a topic, and that the release of Kafka has them as which brokers answer.

    A min.insync.replicas above the number of replicas is accepted, as in Kafka: all replicas are needed then.

    Raises:
        DecisionRefused: with INVALID_CONFIG.
    """
    checked = _with_values(configs)
    try:
        for name in checked:
            if name in settings.hidden:
                raise InvalidConfig(name, "this release of Kafka has no such topic config")
        config = LogConfig.from_strings(checked, settings.log).consistent()
        if config.remote_storage_enable and not settings.has_tier:
            raise InvalidConfig("remote.storage.enable", "the brokers have no tier: set tier.location")
        for name, lowest in settings.lowest.items():
            if name in checked and getattr(config, TOPIC_CONFIGS[name].name) < lowest:
                raise InvalidConfig(name, f"{checked[name]} is not at least {lowest}")
    except InvalidConfig as error:
        raise DecisionRefused(ErrorCode.INVALID_CONFIG, str(error)) from error
    return checked


def _with_values(configs: Mapping[str, str | None]) -> dict[str, str]:
    given = {name: value for name, value in configs.items() if value is not None}
    for name in configs:
        if name not in given:
            raise DecisionRefused(ErrorCode.INVALID_CONFIG, f"Config '{name}' has no value.")
    return given


def topic_log_config(topic: Topic, settings: TopicSettings) -> LogConfig:
    """Return the configuration of a topic's logs: the topic's configs over the broker's defaults."""
    return LogConfig.from_strings(topic.configs, settings.log)


def alter_topic_configs(
    image: ClusterImage,
    name: str,
    edit: ConfigEdit,
    *,
    settings: TopicSettings,
    validate_only: bool = False,
) -> tuple[ClusterImage, TopicResult]:
    """Edit the configs of a topic; the whole edit is made, or nothing is."""
    try:
        topic = image.topics.get(name)
        if topic is None:
            raise DecisionRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'.")
        defaults = settings.log.with_broker_configs(image.broker_configs.get(ALL_BROKERS, {}))
        before = ResourceConfigs(topic.configs, TOPIC_CONFIGS, defaults.to_strings())
        checked = check_configs(edit(before), settings)
        _check_leaves_tier(topic.configs, checked)
    except DecisionRefused as refusal:
        return image, refused(name, refusal)
    changed = replace(topic, configs=checked)
    if checked != topic.configs:
        # With a smaller min.insync.replicas the high watermark may advance without the eligible leader replicas.
        settled = settler(image)
        needed = [min_in_sync_replicas(image, changed, state, settings) for state in topic.partitions]
        states = tuple(map(settled, topic.partitions, needed))
        changed = replace(changed, partitions=states)
        if not validate_only:
            image = image.with_topics([changed])
    return image, done(changed)


def _check_leaves_tier(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Check that a topic leaves the tier only with what it has there (KIP-950); raises DecisionRefused."""
    had, has = (LogConfig.from_strings(configs) for configs in (before, after))
    if had.remote_storage_enable and not has.remote_storage_enable and not has.remote_log_delete_on_disable:
        why = "a topic leaves the tier without its records there: set remote.log.delete.on.disable=true as well"
        raise DecisionRefused(ErrorCode.INVALID_CONFIG, f"remote.storage.enable: {why}")


def alter_broker_configs(
    image: ClusterImage,
    name: str,
    edit: ConfigEdit,
    *,
    keys: Mapping[str, Setting],
    static: Mapping[str, str],
    is_fixed: Callable[[str], bool] = lambda name: False,
    settings: TopicSettings,
    validate_only: bool = False,
) -> ClusterImage:
    """Edit the dynamic configs of a broker (KIP-226); the whole edit is made, or nothing is.

    A config that Kafka does not know is kept, as Kafka keeps it for classes that are plugged in.

    Args:
        name: the broker's id as text; "" for the configs of all brokers that do not set their own.
        keys: the configs that can be changed while a broker runs, by their dotted names.
        static: all configs with which the broker started, by their dotted names.
        is_fixed: returns whether no client may change what has a name that is not among these.

    Raises:
        DecisionRefused: with INVALID_REQUEST, for a config that cannot be changed, and, as in Kafka (KAFKA-13609), for
            a value that is not valid; with INVALID_CONFIG for min.insync.replicas of one broker.
    """
    before = image.broker_configs.get(name, {})
    beneath = {**static, **image.broker_configs.get(ALL_BROKERS, {})} if name != ALL_BROKERS else static
    configs = _with_values(edit(ResourceConfigs(before, keys, beneath)))
    custom_chars = 0
    for key, value in configs.items():
        if key not in keys:
            custom_chars += len(key) + len(value)
            if key in static or is_fixed(key):
                why = f"{key} is read when a broker starts, and cannot be changed later."
                raise DecisionRefused(ErrorCode.INVALID_REQUEST, why)
            continue
        _check_broker_config(keys[key], value)
        if name == ALL_BROKERS and keys[key].of_one_broker:
            raise DecisionRefused(
                ErrorCode.INVALID_REQUEST, f"{key} can be changed for one broker, not for all brokers."
            )
    if custom_chars > MAX_CUSTOM_CHARS:
        why = f"Configs that are not Kafka's may have at most {MAX_CUSTOM_CHARS} characters."
        raise DecisionRefused(ErrorCode.INVALID_REQUEST, why)
    if name != ALL_BROKERS and MIN_IN_SYNC_REPLICAS in configs:
        # Any broker may elect leaders, and which replicas are eligible depends on it; as in Kafka with ELR (KIP-966).
        why = f"{MIN_IN_SYNC_REPLICAS} can be changed for all brokers or for a topic, not for one broker."
        raise DecisionRefused(ErrorCode.INVALID_CONFIG, why)
    if validate_only or configs == before:
        return image
    after = image.with_broker_configs(name, configs)
    if configs.get(MIN_IN_SYNC_REPLICAS) != before.get(MIN_IN_SYNC_REPLICAS):
        after = _settle_eligible(after, settings)
    return after


def _check_broker_config(key: Setting, value: str) -> None:
    try:
        key.parse(value.strip())
    except ValueError as error:
        raise DecisionRefused(ErrorCode.INVALID_REQUEST, f"{key.dotted}: {error}") from error


def _settle_eligible(image: ClusterImage, settings: TopicSettings) -> ClusterImage:
    """Settle the partitions whose ELR another default of min.insync.replicas may empty; it changes no others."""
    settled = settler(image)
    changed = {
        (topic.name, index): after
        for topic in image.topics.values()
        for index, state in enumerate(topic.partitions)
        if state.elr
        and (after := settled(state, min_in_sync_replicas(image, topic, state, settings))).partition_epoch
        != state.partition_epoch
    }
    return image.with_partitions(changed) if changed else image


def alter_group_configs(
    image: ClusterImage,
    group_id: str,
    edit: ConfigEdit,
    *,
    keys: Mapping[str, Setting],
    validate_only: bool = False,
) -> ClusterImage:
    """Edit the configs of a group, which need not exist; the whole edit is made, or nothing is.

    Args:
        keys: the configs that a group may have, by name, with their defaults.

    Raises:
        DecisionRefused: with Kafka's codes: INVALID_REQUEST for an empty id or a config without a value, INVALID_CONFIG
            for an unknown config or a value that is not valid; with POLICY_VIOLATION beyond a limit of this module.
    """
    if not group_id:
        raise DecisionRefused(ErrorCode.INVALID_REQUEST, "A group's name must not be empty.")
    before = image.group_configs.get(group_id, {})
    defaults = {name: config_text(key.default) for name, key in keys.items()}
    configs = {
        name: _checked(name, value, keys) for name, value in edit(ResourceConfigs(before, keys, defaults)).items()
    }
    _check_sessions(configs, defaults)
    if configs and not before:
        _check_limits(image, group_id)
    return image if validate_only or configs == before else image.with_group_configs(group_id, configs)


def _checked(name: str, value: str | None, keys: Mapping[str, Setting]) -> str:
    if value is None:
        raise DecisionRefused(ErrorCode.INVALID_REQUEST, f"Config '{name}' has no value.")
    if name not in keys:
        raise DecisionRefused(ErrorCode.INVALID_CONFIG, f"{name}: there is no such group config.")
    try:
        keys[name].parse(value.strip())
    except ValueError as error:
        raise DecisionRefused(ErrorCode.INVALID_CONFIG, f"{name}: {error}") from error
    return value.strip()


def _check_sessions(configs: Mapping[str, str], defaults: Mapping[str, str]) -> None:
    """Check that a member that sends heartbeats in time keeps its session."""
    for protocol in _PROTOCOLS:
        session, heartbeat = f"{protocol}.session.timeout.ms", f"{protocol}.heartbeat.interval.ms"
        if session in configs or heartbeat in configs:
            values = {**defaults, **configs}
            if int(values[session]) <= int(values[heartbeat]):
                why = f"{session}: {values[session]} is not more than {heartbeat}, {values[heartbeat]}"
                raise DecisionRefused(ErrorCode.INVALID_CONFIG, why)


def _check_limits(image: ClusterImage, group_id: str) -> None:
    if len(group_id) > MAX_GROUP_ID:
        raise DecisionRefused(
            ErrorCode.POLICY_VIOLATION, f"A group with configs has an id of {MAX_GROUP_ID} characters at most."
        )
    if len(image.group_configs) >= MAX_CONFIGURED_GROUPS:
        raise DecisionRefused(
            ErrorCode.POLICY_VIOLATION, f"{MAX_CONFIGURED_GROUPS} groups have configs of their own already."
        )
