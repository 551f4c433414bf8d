"""Decisions that change the configs of topics and brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from purgatorio.broker.log.config import TOPIC_CONFIGS, InvalidConfig, LogConfig
from purgatorio.broker.log.setting import Setting
from purgatorio.broker.metadata.controller.config_edits import ConfigEdit, ResourceConfigs
from purgatorio.broker.metadata.controller.elections import MIN_IN_SYNC_REPLICAS, min_in_sync_replicas, settler
from purgatorio.broker.metadata.controller.result import Refused, TopicResult, done, refused
from purgatorio.broker.metadata.controller.settings import TopicSettings
from purgatorio.broker.metadata.image import ALL_BROKERS, ClusterImage, Topic
from purgatorio.protocol.errors import ErrorCode

MAX_CUSTOM_CHARS: Final = 16 * 1024
"""The most characters that the names and values of a broker's configs may have together that Kafka does not know."""


def check_configs(configs: Mapping[str, str | None], settings: TopicSettings) -> dict[str, str]:
    """Check all configs that are set for a topic, and that the release of Kafka has them as which brokers answer.

    A min.insync.replicas above the number of replicas is accepted, as in Kafka: all replicas are needed then.

    Raises:
        Refused: with INVALID_CONFIG.
    """
    checked = _with_values(configs)
    try:
        for name in checked:
            if name in settings.hidden:
                raise InvalidConfig(name, "this release of Kafka has no such topic config")
        config = LogConfig.from_strings(checked, settings.log)
        for name, lowest in settings.lowest.items():
            if name in checked and getattr(config, TOPIC_CONFIGS[name].field_name) < lowest:
                raise InvalidConfig(name, f"{checked[name]} is not at least {lowest}")
    except InvalidConfig as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from error
    return checked


def _with_values(configs: Mapping[str, str | None]) -> dict[str, str]:
    given = {name: value for name, value in configs.items() if value is not None}
    for name in configs:
        if name not in given:
            raise Refused(ErrorCode.INVALID_CONFIG, f"Config '{name}' has no value.")
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
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'.")
        defaults = settings.log.with_broker_configs(image.broker_configs.get(ALL_BROKERS, {}))
        before = ResourceConfigs(topic.configs, TOPIC_CONFIGS, defaults.to_strings())
        checked = check_configs(edit(before), settings)
    except Refused as refusal:
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
        Refused: with INVALID_REQUEST, for a config that cannot be changed, and, as in Kafka (KAFKA-13609), for a value
            that is not valid; with INVALID_CONFIG for min.insync.replicas of one broker.
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
                raise Refused(ErrorCode.INVALID_REQUEST, why)
            continue
        _check_broker_config(keys[key], value)
        if name == ALL_BROKERS and keys[key].of_one_broker:
            raise Refused(ErrorCode.INVALID_REQUEST, f"{key} can be changed for one broker, not for all brokers.")
    if custom_chars > MAX_CUSTOM_CHARS:
        why = f"Configs that are not Kafka's may have at most {MAX_CUSTOM_CHARS} characters."
        raise Refused(ErrorCode.INVALID_REQUEST, why)
    if name != ALL_BROKERS and MIN_IN_SYNC_REPLICAS in configs:
        # Any broker may elect leaders, and which replicas are eligible depends on it; as in Kafka with ELR (KIP-966).
        why = f"{MIN_IN_SYNC_REPLICAS} can be changed for all brokers or for a topic, not for one broker."
        raise Refused(ErrorCode.INVALID_CONFIG, why)
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
        raise Refused(ErrorCode.INVALID_REQUEST, f"{key.dotted}: {error}") from error


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
