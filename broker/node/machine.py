"""The share of a machine that each broker of a process may have: connections by open files, records by memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.memory_shares import memory_for, shares_of
from purgatorio.broker.server import open_files
from purgatorio.logger import get_logger

_log = get_logger(__name__)

ADDRESS_SHARE: Final = 0.75
"""The part of a broker's connections that one address may have: that of the two settings' defaults."""
LOGS_SHARE: Final = 0.25
"""The part of the memory that the logs of all brokers of a process may take by default; with all else it is a third."""
MIN_LOGS_BYTES: Final = 64 * 1024 * 1024
MAX_LOGS_BYTES: Final = 2 * 1024 * 1024 * 1024
CGROUP_LIMITS: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Where a container finds the limit of its memory: cgroups of version 2, and 1."""


def fitted(config: BrokerConfig, brokers: int, memory_bytes: int | None) -> BrokerConfig:
    """Return the settings of one of `brokers` brokers as this machine allows them.

    max.connections is lowered to the connections for which the process has files, and one address gets three quarters
    of them unless max.connections.per.ip is set. memory.bytes follows log.memory.bytes, or the machine's memory, unless
    it is set; and what has a share of it follows it.

    Args:
        memory_bytes: `usable_memory_bytes`.
    """
    changes: dict[str, int] = {}
    most = open_files.connections_per_broker(brokers)
    if most is not None and config.max_connections > most:
        changes["max_connections"] = most
        if "max_connections" in config.model_fields_set:
            _log.warning(
                "max.connections is lowered to what the limit of open files allows",
                broker=config.broker_id,
                wanted=config.max_connections,
                allowed=most,
                open_files=open_files.limit(),
                remedy="raise the limit of open files (ulimit -n)",
            )
        if "max_connections_per_ip" not in config.model_fields_set:
            changes["max_connections_per_ip"] = max(1, int(most * ADDRESS_SHARE))
    changes |= _shares(config, brokers, memory_bytes)
    return config.model_copy(update=changes) if changes else config


def _shares(config: BrokerConfig, brokers: int, memory_bytes: int | None) -> dict[str, int]:
    """Return memory.bytes, and the settings that are a share of it, as far as they are not set."""
    given = config.model_fields_set
    if "memory_bytes" in given:
        own_bytes = config.memory_bytes
    elif "log_memory_bytes" in given:
        own_bytes = memory_for(config.log_memory_bytes)
    elif memory_bytes is not None:
        logs_bytes = int(memory_bytes * LOGS_SHARE) // brokers
        own_bytes = memory_for(max(MIN_LOGS_BYTES, min(logs_bytes, MAX_LOGS_BYTES)))
    else:
        return {}
    shares = shares_of(own_bytes)
    fetched = min(shares.fetched, config.replica_fetch_response_max_bytes)
    wanted = {
        "memory_bytes": own_bytes,
        "log_memory_bytes": shares.logs,
        "queued_max_request_bytes": shares.requests,
        "socket_request_max_bytes": shares.largest_request,
        "replica_fetch_response_max_bytes": fetched,
    }
    return {name: size for name, size in wanted.items() if name == "memory_bytes" or name not in given}


def usable_memory_bytes() -> int | None:
    """Return the memory that this process may use: the machine's, or that of its container; None if it is unknown."""
    try:
        known = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return None
    for path in CGROUP_LIMITS:
        try:
            known.append(int(path.read_text()))
        except (OSError, ValueError):  # this version of cgroups is not there, or says "max"
            continue
    return min(known)
