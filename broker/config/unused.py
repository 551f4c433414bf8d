"""Kafka's dynamic broker configs that nothing here reads: of threads, files, tiers, Kerberos.

They are checked by Kafka's types and bounds and kept, so that tools which set them go on; DescribeConfigs lists those
that are set, and their documentation says that they have no effect. The configs that say who may connect (``ssl.*``,
``listeners``, mechanisms) are not among them: a client must not believe that they have changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final

from purgatorio.broker.log.config_keys import MAX_INT, MAX_LONG, ConfigKey, ConfigType, number_key

MAX_TEXT: Final = 1_000
"""The most characters of a text that is kept for nothing."""
_DOC: Final = "Accepted, without effect: Kafka's brokers read it, these do not."
_INT, _LONG, _SHORT = ConfigType.INT, ConfigType.LONG, ConfigType.SHORT
_HIGHEST: Final = {_INT: MAX_INT, _LONG: MAX_LONG, _SHORT: 2**15 - 1}
_NUMBERS: Final[dict[str, tuple[ConfigType, int]]] = {
    "background.threads": (_INT, 1),
    "compression.gzip.level": (_INT, -1),
    "compression.lz4.level": (_INT, 1),
    "compression.zstd.level": (_INT, -131_072),
    "group.consumer.assignment.interval.ms": (_INT, 0),
    "group.coordinator.cached.buffer.max.bytes": (_INT, 1),
    "group.streams.assignment.interval.ms": (_INT, 0),
    "log.cleaner.dedupe.buffer.size": (_LONG, 0),
    "log.cleaner.io.buffer.size": (_INT, 0),
    "log.cleaner.threads": (_INT, 0),
    "log.flush.interval.messages": (_LONG, 1),
    "log.flush.interval.ms": (_LONG, 0),
    "log.index.interval.bytes": (_INT, 0),
    "log.index.size.max.bytes": (_INT, 4),
    "log.local.retention.bytes": (_LONG, -2),
    "log.local.retention.ms": (_LONG, -2),
    "log.remote.copy.lag.bytes": (_LONG, -1),
    "log.remote.copy.lag.ms": (_LONG, -1),
    "log.roll.jitter.ms": (_LONG, 0),
    "log.segment.delete.delay.ms": (_LONG, 0),
    "num.io.threads": (_INT, 1),
    "num.network.threads": (_INT, 1),
    "num.recovery.threads.per.data.dir": (_INT, 1),
    "num.replica.fetchers": (_INT, 1),
    "remote.fetch.max.wait.ms": (_INT, 1),
    "remote.list.offsets.request.timeout.ms": (_LONG, 1),
    "remote.log.index.file.cache.total.size.bytes": (_LONG, 1),
    "remote.log.manager.copier.thread.pool.size": (_INT, 1),
    "remote.log.manager.copy.max.bytes.per.second": (_LONG, 1),
    "remote.log.manager.expiration.thread.pool.size": (_INT, 1),
    "remote.log.manager.fetch.max.bytes.per.second": (_LONG, 1),
    "remote.log.manager.follower.thread.pool.size": (_INT, 1),
    "remote.log.reader.threads": (_INT, 1),
    "sasl.kerberos.min.time.before.relogin": (_LONG, 0),
    "sasl.login.refresh.buffer.seconds": (_SHORT, 0),
    "sasl.login.refresh.min.period.seconds": (_SHORT, 0),
    "share.coordinator.cached.buffer.max.bytes": (_INT, 1),
}
"""The type and the smallest number of each."""
_RATIOS: Final = (
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.max.bytes.per.second",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
)
_FLAGS: Final = (
    "follower.fetch.last.tiered.offset.enable",
    "log.preallocate",
    "transaction.partition.verification.enable",
    "unclean.leader.election.enable",
)
_TEXTS: Final = {
    "sasl.kerberos.kinit.cmd": ConfigType.STRING,
    "sasl.kerberos.principal.to.local.rules": ConfigType.LIST,
    "sasl.kerberos.service.name": ConfigType.STRING,
}
_OF_ONE_BROKER: Final = "sasl."
"""Configs whose names begin so can be set for one broker, not for all, as in Kafka."""


def unused_keys() -> Iterator[ConfigKey]:
    """Yield the configs; they have no default that a broker starts with."""
    for name, (kind, low) in _NUMBERS.items():
        key = number_key(name, low, _DOC, low=low, high=_HIGHEST[kind], kind=kind)
        yield _key(name, kind, key.parse)
    for name in _RATIOS:
        yield _key(name, ConfigType.DOUBLE, _ratio)
    for name in _FLAGS:
        yield _key(name, ConfigType.BOOLEAN, _flag)
    for name, kind in _TEXTS.items():
        yield _key(name, kind, _text)


def _key(name: str, kind: ConfigType, parse: Callable[[str], object]) -> ConfigKey:
    return ConfigKey(name, kind, None, _DOC, parse, of_one_broker=name.startswith(_OF_ONE_BROKER))


def _ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a number") from None
    if not math.isfinite(value):
        raise ValueError(f"'{text}' is not a finite number")
    return value


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"'{text}' is neither true nor false")
    return text.lower() == "true"


def _text(text: str) -> str:
    if len(text) > MAX_TEXT:
        raise ValueError(f"it has more than {MAX_TEXT} characters")
    return text
