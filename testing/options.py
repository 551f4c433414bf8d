"""What a test may ask of its cluster: brokers, racks, settings by Kafka's names, topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from purgatorio.broker.config import ClusterConfig

TEST_PROFILE: Final[Mapping[str, Any]] = {
    "group_min_session_timeout_ms": 1,
    "group_consumer_heartbeat_interval_ms": 100,
}
"""Settings that differ from a broker's own: tests want short sessions, which Kafka's minimum of 6 s would refuse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """What a test asks of its cluster.

    Attributes:
        brokers: how many; their ids are 1 and up.
        racks: the rack of each broker, in turn; empty: none has one.
        topics: names of topics to create at the start, with their number of partitions.
        settings: broker settings, by Kafka's names with dots or underscores.
    """

    brokers: int = 3
    racks: Sequence[str] = ()
    topics: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def config(self) -> ClusterConfig:
        """Return the cluster's configuration: free ports on loopback.

        Raises:
            ValueError: a setting is unknown, in which case the nearest ones are named, or its value is not allowed.
        """
        from purgatorio.broker.config import BrokerConfig, ClusterConfig

        settings = {_field_of(name): value for name, value in self.settings.items()}
        return ClusterConfig(
            brokers=self.brokers,
            port=0,
            admin_port=0,
            racks=",".join(self.racks) or None,
            broker=BrokerConfig(**{**TEST_PROFILE, **settings}),
        )


def _field_of(name: str) -> str:
    """Return the field of `BrokerConfig` for a setting's name.

    Raises:
        ValueError: there is no such setting.
    """
    from purgatorio.broker.config import BrokerConfig

    known = BrokerConfig.model_fields
    wanted = name.replace(".", "_").replace("-", "_")
    if wanted in known:
        return wanted
    near = get_close_matches(wanted, known, n=3)
    hint = f": did you mean {' or '.join(each.replace('_', '.') for each in near)}?" if near else ""
    raise ValueError(f"there is no broker setting {name!r}{hint}")
