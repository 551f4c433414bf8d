"""Delayed operations: requests that wait for a condition or a deadline, parked without a thread or a task each.

Standard library only, and nothing else of this project: usable alone. See README.md beside this file. `PurgatoryGroup`
is the short way; the other classes are its parts.
"""

from purgatorio.purgatory.actions import ActionQueue
from purgatorio.purgatory.clock import Alarm
from purgatorio.purgatory.delayed_operation import DelayedOperation, FinishedOperation, Outcome
from purgatorio.purgatory.key_group import GroupOperation, GroupWatch, KeyGroup, LaterChecks, TakeLater, WatchedKey
from purgatorio.purgatory.purgatories import PurgatoryGroup
from purgatorio.purgatory.purgatory import Purgatory
from purgatorio.purgatory.reaper import Reaper
from purgatorio.purgatory.snapshots import ParkedOperation, WatchListSnapshot
from purgatorio.purgatory.timer import MAX_DELAY_MS, Timer
from purgatorio.purgatory.timing_wheel import BucketSnapshot, LevelSnapshot, TimerEntry, TimingWheel
from purgatorio.purgatory.waiter import WaitAborted

__all__ = [
    "MAX_DELAY_MS",
    "ActionQueue",
    "Alarm",
    "BucketSnapshot",
    "DelayedOperation",
    "FinishedOperation",
    "GroupOperation",
    "GroupWatch",
    "KeyGroup",
    "LaterChecks",
    "LevelSnapshot",
    "Outcome",
    "ParkedOperation",
    "Purgatory",
    "PurgatoryGroup",
    "Reaper",
    "TakeLater",
    "Timer",
    "TimerEntry",
    "TimingWheel",
    "WaitAborted",
    "WatchListSnapshot",
    "WatchedKey",
]
