"""The configs that a group may have of its own, as Kafka 4.4 knows them: their defaults, bounds and documentation.

Those of the consumer protocol (KIP-848) and of share groups (KIP-932) are bounded by the broker's settings. Those of
Streams groups (KIP-1071), which brokers do not serve, are checked by Kafka's default bounds and kept, so that programs
which set them first go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from purgatorio.broker.config.broker_settings import BrokerConfig
from purgatorio.broker.config.declare import MadeLate
from purgatorio.broker.coordinator import share_settings as share
from purgatorio.broker.group.config import CONSUMER_HEARTBEAT_INTERVAL, CONSUMER_SESSION_TIMEOUT
from purgatorio.broker.log.setting import MAX_INT, ConfigType, Setting, number, text
from purgatorio.broker.metadata.releases import release
from purgatorio.broker.metadata.topic_name import topic_name_problem

_NO_STREAMS: Final = "Kept, without effect: there are no groups of Kafka Streams' own protocol."
_AT_ONCE: Final = "Kept, without effect: partitions are assigned at once."
_PREFIX: Final = "group."
"""A group config's default is the broker's setting of its name behind this prefix."""


def _number(name: str, default: int, low: int, high: int, doc: str) -> Setting:
    setting: Setting = number(default, doc, ge=low, le=high, names=(name,))
    setting.broker_name = _PREFIX + name
    return setting


_NUMBERS: Final = (
    _number("consumer.assignment.interval.ms", 1_000, 0, 15_000, _AT_ONCE),
    _number("streams.session.timeout.ms", 45_000, 45_000, 60_000, _NO_STREAMS),
    _number("streams.heartbeat.interval.ms", 5_000, 5_000, 15_000, _NO_STREAMS),
    _number("streams.num.standby.replicas", 0, 0, 2, _NO_STREAMS),
    _number("streams.initial.rebalance.delay.ms", 3_000, 0, MAX_INT, _NO_STREAMS),
    _number("streams.assignment.interval.ms", 1_000, 0, 15_000, _NO_STREAMS),
)
_OF_BROKER: Final = (
    CONSUMER_SESSION_TIMEOUT,
    CONSUMER_HEARTBEAT_INTERVAL,
    share.SESSION_TIMEOUT,
    share.HEARTBEAT_INTERVAL,
    share.ASSIGNMENT_INTERVAL,
    share.RECORD_LOCK_DURATION,
    share.DELIVERY_COUNT_LIMIT,
    share.MAX_RECORD_LOCKS,
)
"""The configs whose default and bounds are settings of the broker."""


def _offset_reset(text: str) -> None:
    share.OffsetReset.parse(text)


def _dead_letter_topic(text: str) -> None:
    problem = topic_name_problem(text) if text else None
    if text.startswith("__"):
        problem = "the name of a dead-letter topic must not start with '__'"
    if problem is not None:
        raise ValueError(problem)


class _GroupFlag(Setting):
    """A flag of a group, whose value stays text, and of which Kafka refuses other texts by listing the two."""

    def parse(self, text: str) -> str:
        """Return the text in lower case; raises ValueError as `Setting.parse`."""
        if text.lower() not in ("true", "false"):
            raise ValueError(f"'{text.lower()}' is not one of true, false")
        return text.lower()


_TEXTS: Final[tuple[Setting, ...]] = (
    text(
        "latest",
        "Where a share group begins in a partition that it has not read before: earliest, latest, or so long ago: "
        "by_duration:PnDTnHnMn.nS (KIP-1106).",
        rule=_offset_reset,
        names=(share.AUTO_OFFSET_RESET,),
    ),
    text(
        share.READ_UNCOMMITTED,
        "Whether a share group gets the records of aborted transactions, too: read_uncommitted, or read_committed.",
        only=(share.READ_COMMITTED, share.READ_UNCOMMITTED),
        names=(share.ISOLATION_LEVEL,),
    ),
    _GroupFlag(
        True,
        "Whether the members of a share group may renew the locks of their records.",
        ConfigType.BOOLEAN,
        names=(share.RENEW_ACKNOWLEDGE,),
    ),
    text(
        "",
        "The topic to which a share group's records go that are rejected, or delivered too often; none if it is empty.",
        rule=_dead_letter_topic,
        names=(share.DEAD_LETTER_TOPIC,),
    ),
    _GroupFlag(
        False,
        "Whether dead letters have the key and the value of such records; else only their headers tell of them.",
        ConfigType.BOOLEAN,
        names=(share.COPY_DEAD_LETTERS,),
    ),
)


def group_keys(config: BrokerConfig) -> Mapping[str, Setting]:
    """Return the configs that a group may have, by name; the defaults are those of a broker with these settings.

    Those that the release of Kafka has not got, as which the broker answers, are left out.

    The broker's own value is always allowed: Kafka refuses to start if its bounds exclude it, here they give way.
    """
    return MadeLate(partial(_group_keys, config))


def _group_keys(config: BrokerConfig) -> Mapping[str, Setting]:
    own = [_of_broker(config, name) for name in _OF_BROKER]
    known = release(config.as_version)
    hidden = frozenset() if known is None else known.configs["group"].absent
    keys = sorted((*own, *_NUMBERS, *_TEXTS), key=lambda key: key.dotted)
    return {key.dotted: key for key in keys if key.dotted not in hidden}


def _of_broker(config: BrokerConfig, name: str) -> Setting:
    """Return a config whose default and bounds are settings of the broker."""
    kind, _, rest = name.replace(".", "_").partition("_")
    field = f"group_{kind}_{rest}"
    value, low, high = (getattr(config, f"group_{kind}_{bound}{rest}") for bound in ("", "min_", "max_"))
    return _number(name, value, min(low, value), max(high, value), BrokerConfig.model_fields[field].doc)
