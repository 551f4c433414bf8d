"""The settings of share groups (KIP-932): those of one group, over those that all groups of the brokers have."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from enum import Enum
from typing import Any, Final, NamedTuple

from purgatorio.broker.metadata.store import MetadataStore
from purgatorio.late import dataclass

SESSION_TIMEOUT: Final = "share.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "share.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL: Final = "share.assignment.interval.ms"
RECORD_LOCK_DURATION: Final = "share.record.lock.duration.ms"
DELIVERY_COUNT_LIMIT: Final = "share.delivery.count.limit"
MAX_RECORD_LOCKS: Final = "share.partition.max.record.locks"
AUTO_OFFSET_RESET: Final = "share.auto.offset.reset"
ISOLATION_LEVEL: Final = "share.isolation.level"
RENEW_ACKNOWLEDGE: Final = "share.renew.acknowledge.enable"
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"
COPY_DEAD_LETTERS: Final = "errors.deadletterqueue.copy.record.enable"

READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"

_BY_DURATION: Final = "by_duration:"
_DURATION: Final = re.compile(
    r"P(?=[\dT])(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:\.(\d{1,9}))?S)?)?"
)
"""ISO 8601, as java.time.Duration reads it: days or less; without a sign."""


class ResetTo(Enum):
    """Where a share group begins in a partition that it has not read before."""

    LATEST = "latest"
    EARLIEST = "earliest"
    DURATION = "by_duration"


class OffsetReset(NamedTuple):
    """A share.auto.offset.reset (KIP-1106).

    Attributes:
        ago_ms: with DURATION: begin with the first record that is no older than this.
    """

    to: ResetTo
    ago_ms: int = 0

    @staticmethod
    def parse(text: str) -> OffsetReset:
        """Read a value of the config.

        Raises:
            ValueError: it is none.
        """
        if text in (ResetTo.LATEST.value, ResetTo.EARLIEST.value):
            return OffsetReset(ResetTo(text))
        found = _DURATION.fullmatch(text.removeprefix(_BY_DURATION)) if text.startswith(_BY_DURATION) else None
        if found is None:
            raise ValueError(f"'{text}' is not one of earliest, latest, by_duration:PnDTnHnMn.nS")
        days, hours, minutes, seconds = (int(each or 0) for each in found.groups()[:4])
        fraction_ms = int((found[5] or "0").ljust(3, "0")[:3])
        return OffsetReset(
            ResetTo.DURATION, 1_000 * (((days * 24 + hours) * 60 + minutes) * 60 + seconds) + fraction_ms
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings:
    """The settings of one share group; the defaults are those of a broker without settings.

    Attributes:
        session_timeout_ms: the time without a heartbeat after which a member is taken for dead.
        heartbeat_interval_ms: the longest time between two heartbeats of a member.
        assignment_interval_ms: the shortest time between two target assignments.
        record_lock_duration_ms: how long a member may keep an acquired record.
        delivery_count_limit: how often a record is delivered, at most.
        max_record_locks: the most records of one partition between its start offset and its end offset.
        auto_offset_reset: where to begin in a partition that was not read before.
        reads_committed: whether records of transactions are delivered only if these were committed.
        renews: whether members may renew the locks of their records (KIP-1222).
        dead_letter_topic: where records go that are given up (KIP-1191); "": nowhere.
        copies_dead_letters: whether they go there with key and value.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 0
    record_lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    max_record_locks: int = 2_000
    auto_offset_reset: OffsetReset = field(default=OffsetReset(ResetTo.LATEST))
    reads_committed: bool = False
    renews: bool = True
    dead_letter_topic: str = ""
    copies_dead_letters: bool = False


def _flag(text: str) -> bool:
    return text.lower() == "true"


_FIELDS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    SESSION_TIMEOUT: ("session_timeout_ms", int),
    HEARTBEAT_INTERVAL: ("heartbeat_interval_ms", int),
    ASSIGNMENT_INTERVAL: ("assignment_interval_ms", int),
    RECORD_LOCK_DURATION: ("record_lock_duration_ms", int),
    DELIVERY_COUNT_LIMIT: ("delivery_count_limit", int),
    MAX_RECORD_LOCKS: ("max_record_locks", int),
    AUTO_OFFSET_RESET: ("auto_offset_reset", OffsetReset.parse),
    ISOLATION_LEVEL: ("reads_committed", READ_COMMITTED.__eq__),
    RENEW_ACKNOWLEDGE: ("renews", _flag),
    DEAD_LETTER_TOPIC: ("dead_letter_topic", str),
    COPY_DEAD_LETTERS: ("copies_dead_letters", _flag),
}
"""By config of a group: the field, and how its text is read, which was checked when it was set."""


class ShareGroupSettings:
    """The settings of share groups as the image has them now.

    Asking costs a look-up: settings are made again only when the configs of any group have changed.

    Args:
        store: has the image that the broker acts on.

    Attributes:
        defaults: what groups without configs of their own have: the broker's settings.
    """

    def __init__(self, store: MetadataStore, defaults: ShareSettings) -> None:
        self._store = store
        self.defaults = defaults
        self._made_from: tuple[object, ShareSettings] | None = None
        self._made: dict[str, ShareSettings] = {}

    def of(self, group_id: str) -> ShareSettings:
        """Return the settings of a group, which need not exist."""
        all_configs = self._store.image.group_configs
        configs = all_configs.get(group_id)
        if not configs:
            return self.defaults
        made_from = self._made_from
        if made_from is None or made_from[0] is not all_configs or made_from[1] is not self.defaults:
            self._made_from = all_configs, self.defaults
            self._made = {}  # has no more than the groups with configs, of which there is a limit
        made = self._made.get(group_id)
        if made is None:
            found = ((_FIELDS[name], text) for name, text in configs.items() if name in _FIELDS)
            made = replace(self.defaults, **{name: read(text) for (name, read), text in found})
            self._made[group_id] = made
        return made
