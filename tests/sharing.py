"""How pytest-xdist shares the tests among its processes: file by file, with exceptions.

The groups that pytest-xdist makes of its mark `xdist_group` do not work with pytest 9.2, which keeps node ids as they
are (pytest-xdist#1386): each process started a Spark session of its own. Its `loadgroup` also sends each test by
itself, and for each one counts all that came before it.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

TOGETHER = (
    "tests/pipeline/",
    "tests/simulation/test_swarm.py",
    "tests/compat/test_java.py",
    "tests/compat/test_kafka_tools.py",
    "tests/test_wheel.py",
)
"""What shares something costly (the Spark session, simulated seeds, compiled Java, the wheels), longest first."""
EACH_ALONE = (
    "tests/broker/server/test_hostile_frames.py",
    "tests/simulation/test_command.py",
    "tests/simulation/test_run.py",
    "tests/simulation/test_seeds.py",
    "tests/compat/",
    "tests/docs/",
    "tests/examples/",
    "tests/scripts/",
)
"""Files and folders whose tests take seconds each."""


def share_of(nodeid: str) -> str:
    """Return the name of what runs in one process, one after the other."""
    path = nodeid.partition("::")[0]
    if together := next((each for each in TOGETHER if path.startswith(each)), None):
        return together
    return nodeid if path.startswith(EACH_ALONE) else path


def rank(nodeid: str) -> int:
    """Return the place of a test in the order of starts: what takes long begins first, or it ends last, alone."""
    share = share_of(nodeid)
    if share in TOGETHER:
        return TOGETHER.index(share)
    return len(TOGETHER) + (share != nodeid)


class Sharing(LoadScopeScheduling):
    """Hands shares out in the order in which they were collected."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return share_of(nodeid)
