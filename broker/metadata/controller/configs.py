"""Decisions that change the configs of topics."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from purgatorio.broker.log.config import TOPIC_CONFIGS, ConfigType, InvalidConfig, LogConfig
from purgatorio.broker.metadata.controller.elections import min_in_sync_replicas, settler
from purgatorio.broker.metadata.controller.result import Refused, TopicResult, done, refused
from purgatorio.broker.metadata.controller.settings import TopicSettings
from purgatorio.broker.metadata.image import ClusterImage, Topic
from purgatorio.protocol.errors import ErrorCode


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


def check_configs(configs: Mapping[str, str | None], defaults: LogConfig) -> dict[str, str]:
    """Check all configs that are set for a topic.

    A min.insync.replicas above the number of replicas is accepted, as in Kafka: all replicas are needed then.

    Raises:
        Refused: with INVALID_CONFIG.
    """
    checked: dict[str, str] = {}
    for name, value in configs.items():
        if value is None:
            raise Refused(ErrorCode.INVALID_CONFIG, f"Config '{name}' has no value.")
        checked[name] = value
    try:
        LogConfig.from_strings(checked, defaults)
    except InvalidConfig as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from error
    return checked


def topic_log_config(topic: Topic, settings: TopicSettings) -> LogConfig:
    """Return the configuration of a topic's logs: the topic's configs over the broker's defaults."""
    return LogConfig.from_strings(topic.configs, settings.log)


def alter_topic_configs(
    image: ClusterImage,
    name: str,
    configs: Mapping[str, str | None],
    *,
    settings: TopicSettings,
    validate_only: bool = False,
) -> tuple[ClusterImage, TopicResult]:
    """Set exactly these configs for a topic; its other configs are reset to their defaults."""
    try:
        topic = _topic(image, name)
        return _replace(image, topic, configs, settings, validate_only)
    except Refused as refusal:
        return image, refused(name, refusal)


def incremental_alter_topic_configs(
    image: ClusterImage,
    name: str,
    changes: Sequence[ConfigChange],
    *,
    settings: TopicSettings,
    validate_only: bool = False,
) -> tuple[ClusterImage, TopicResult]:
    """Change some configs of a topic and leave the others as they are; all changes are made, or none."""
    try:
        topic = _topic(image, name)
        twice = [config for config, times in Counter(change.name for change in changes).items() if times > 1]
        if twice:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Config '{twice[0]}' is changed more than once.")
        configs = dict(topic.configs)
        for change in changes:
            _apply(configs, change, settings.log)
        return _replace(image, topic, configs, settings, validate_only)
    except Refused as refusal:
        return image, refused(name, refusal)


def _topic(image: ClusterImage, name: str) -> Topic:
    topic = image.topics.get(name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'.")
    return topic


def _replace(
    image: ClusterImage,
    topic: Topic,
    configs: Mapping[str, str | None],
    settings: TopicSettings,
    validate_only: bool,
) -> tuple[ClusterImage, TopicResult]:
    checked = check_configs(configs, settings.log)
    changed = replace(topic, configs=checked)
    if checked != topic.configs:
        # With a smaller min.insync.replicas the high watermark may advance without the eligible leader replicas.
        settled = settler(image)
        states = tuple(settled(state, min_in_sync_replicas(changed, state, settings)) for state in topic.partitions)
        changed = replace(changed, partitions=states)
        if not validate_only:
            image = image.with_topics([changed])
    return image, done(changed)


def _apply(configs: dict[str, str], change: ConfigChange, defaults: LogConfig) -> None:
    """Make one change; the resulting configs are checked after all changes are made."""
    if change.operation == ConfigOperation.DELETE:
        configs.pop(change.name, None)
        return
    if change.value is None:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Config '{change.name}' has no value.")
    if change.operation == ConfigOperation.SET:
        configs[change.name] = change.value
    elif change.operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        configs[change.name] = _changed_list(configs, change.name, change.value, change.operation, defaults)
    else:
        raise Refused(ErrorCode.INVALID_REQUEST, f"There is no config operation {change.operation}.")


def _changed_list(configs: Mapping[str, str], name: str, value: str, operation: int, defaults: LogConfig) -> str:
    """Return a list config with items added or removed; the default's items if the topic does not set it."""
    key = TOPIC_CONFIGS.get(name)
    if key is not None and key.type is not ConfigType.LIST:
        raise Refused(ErrorCode.INVALID_CONFIG, f"Config '{name}' is not a list.")
    items = _items(configs[name] if name in configs else defaults.to_strings().get(name, ""))
    given = _items(value)
    if operation == ConfigOperation.APPEND:
        items += [item for item in dict.fromkeys(given) if item not in items]
    else:
        items = [item for item in items if item not in given]
    return ",".join(items)


def _items(value: str) -> list[str]:
    return [item for item in (part.strip() for part in value.split(",")) if item]
