"""The configs that a group may have of its own, as Kafka 4.3 knows them: their defaults, bounds and documentation.

Those of the consumer protocol (KIP-848) are bounded by the broker's settings. Those of share groups (KIP-932) and of
Streams groups (KIP-1071), which brokers do not serve, are checked by Kafka's default bounds and kept, so that programs
which set them first go on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from purgatorio.broker.config.broker_settings import BrokerConfig
from purgatorio.broker.group.config import CONSUMER_HEARTBEAT_INTERVAL, CONSUMER_SESSION_TIMEOUT
from purgatorio.broker.log.config_keys import MAX_INT, ConfigKey, ConfigType, number_key

_NO_SHARE: Final = "Kept, without effect: there are no share groups."
_NO_STREAMS: Final = "Kept, without effect: there are no groups of Kafka Streams' own protocol."
_AT_ONCE: Final = "Kept, without effect: partitions are assigned at once."
_PREFIX: Final = "group."
"""A group config's default is the broker's setting of its name behind this prefix."""


def _number(name: str, default: int, low: int, high: int, doc: str) -> ConfigKey:
    return replace(number_key(name, default, doc, low=low, high=high), broker_name=_PREFIX + name)


_NUMBERS: Final = (
    _number("consumer.assignment.interval.ms", 1_000, 0, 15_000, _AT_ONCE),
    _number("share.session.timeout.ms", 45_000, 45_000, 60_000, _NO_SHARE),
    _number("share.heartbeat.interval.ms", 5_000, 5_000, 15_000, _NO_SHARE),
    _number("share.record.lock.duration.ms", 30_000, 15_000, 60_000, _NO_SHARE),
    _number("share.delivery.count.limit", 5, 2, 10, _NO_SHARE),
    _number("share.partition.max.record.locks", 2_000, 100, 4_000, _NO_SHARE),
    _number("share.assignment.interval.ms", 1_000, 0, 15_000, _NO_SHARE),
    _number("streams.session.timeout.ms", 45_000, 45_000, 60_000, _NO_STREAMS),
    _number("streams.heartbeat.interval.ms", 5_000, 5_000, 15_000, _NO_STREAMS),
    _number("streams.num.standby.replicas", 0, 0, 2, _NO_STREAMS),
    _number("streams.initial.rebalance.delay.ms", 3_000, 0, MAX_INT, _NO_STREAMS),
    _number("streams.assignment.interval.ms", 1_000, 0, 15_000, _NO_STREAMS),
)
_OFFSET_RESET: Final = re.compile(
    r"earliest|latest|by_duration:P(?=[\dT])(\d{1,9}D)?(T(?=\d)(\d{1,9}H)?(\d{1,9}M)?(\d{1,9}(\.\d{1,9})?S)?)?"
)
"""Where a share group begins (KIP-1106); a duration is one of ISO 8601, without a sign, in days or less."""


def _offset_reset(text: str) -> str:
    if not _OFFSET_RESET.fullmatch(text):
        raise ValueError(f"'{text}' is not one of earliest, latest, by_duration:PnDTnHnMn.nS")
    return text


def _one_of(*choices: str) -> Any:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"'{text}' is not one of {', '.join(choices)}")
        return text

    return parse


_TEXTS: Final = (
    ConfigKey("share.auto.offset.reset", ConfigType.STRING, "latest", _NO_SHARE, _offset_reset),
    ConfigKey(
        "share.isolation.level",
        ConfigType.STRING,
        "read_uncommitted",
        _NO_SHARE,
        _one_of("read_committed", "read_uncommitted"),
    ),
    ConfigKey(
        "share.renew.acknowledge.enable",
        ConfigType.BOOLEAN,
        "true",
        _NO_SHARE,
        lambda text: _one_of("true", "false")(text.lower()),
    ),
)


def group_keys(config: BrokerConfig) -> Mapping[str, ConfigKey]:
    """Return the configs that a group may have, by name; the defaults are those of a broker with these settings.

    The broker's own value is always allowed: Kafka refuses to start if its bounds exclude it, here they give way.
    """
    own = [_of_broker(config, name) for name in (CONSUMER_SESSION_TIMEOUT, CONSUMER_HEARTBEAT_INTERVAL)]
    return MappingProxyType({key.name: key for key in sorted((*own, *_NUMBERS, *_TEXTS), key=lambda key: key.name)})


def _of_broker(config: BrokerConfig, name: str) -> ConfigKey:
    """Return a config whose default and bounds are settings of the broker."""
    kind, _, rest = name.replace(".", "_").partition("_")
    field = f"group_{kind}_{rest}"
    value, low, high = (getattr(config, f"group_{kind}_{bound}{rest}") for bound in ("", "min_", "max_"))
    return _number(name, value, min(low, value), max(high, value), BrokerConfig.model_fields[field].description)
