"""The decision that changes the configs of one group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from purgatorio.broker.log.setting import Setting, config_text
from purgatorio.broker.metadata.controller.config_edits import ConfigEdit, ResourceConfigs
from purgatorio.broker.metadata.controller.result import Refused
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.protocol.errors import ErrorCode

MAX_CONFIGURED_GROUPS: Final = 10_000
"""The most groups that have configs of their own; they stay when a group goes, as in Kafka."""
MAX_GROUP_ID: Final = 1_000
"""The longest id, in characters, of a group with configs of its own."""

_PROTOCOLS: Final = ("consumer", "share", "streams")


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
        Refused: with Kafka's codes: INVALID_REQUEST for an empty id or a config without a value, INVALID_CONFIG for
            an unknown config or a value that is not valid; with POLICY_VIOLATION beyond a limit of this module.
    """
    if not group_id:
        raise Refused(ErrorCode.INVALID_REQUEST, "A group's name must not be empty.")
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
        raise Refused(ErrorCode.INVALID_REQUEST, f"Config '{name}' has no value.")
    if name not in keys:
        raise Refused(ErrorCode.INVALID_CONFIG, f"{name}: there is no such group config.")
    try:
        keys[name].parse(value.strip())
    except ValueError as error:
        raise Refused(ErrorCode.INVALID_CONFIG, f"{name}: {error}") from error
    return value.strip()


def _check_sessions(configs: Mapping[str, str], defaults: Mapping[str, str]) -> None:
    """Check that a member that sends heartbeats in time keeps its session."""
    for protocol in _PROTOCOLS:
        session, heartbeat = f"{protocol}.session.timeout.ms", f"{protocol}.heartbeat.interval.ms"
        if session in configs or heartbeat in configs:
            values = {**defaults, **configs}
            if int(values[session]) <= int(values[heartbeat]):
                why = f"{session}: {values[session]} is not more than {heartbeat}, {values[heartbeat]}"
                raise Refused(ErrorCode.INVALID_CONFIG, why)


def _check_limits(image: ClusterImage, group_id: str) -> None:
    if len(group_id) > MAX_GROUP_ID:
        raise Refused(
            ErrorCode.POLICY_VIOLATION, f"A group with configs has an id of {MAX_GROUP_ID} characters at most."
        )
    if len(image.group_configs) >= MAX_CONFIGURED_GROUPS:
        raise Refused(ErrorCode.POLICY_VIOLATION, f"{MAX_CONFIGURED_GROUPS} groups have configs of their own already.")
