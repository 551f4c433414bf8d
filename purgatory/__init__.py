"""Delayed operations: requests that wait for a condition or a deadline, parked without a thread or a task each.

Standard library only, and nothing else of this project: usable alone. See README.md beside this file. `PurgatoryGroup`
is the short way; the other classes are its parts.
"""

from .actions import ActionQueue
from .clock import Alarm
from .delayed_operation import DelayedOperation, FinishedOperation, Outcome
from .key_group import GroupOperation, GroupWatch, KeyGroup, LaterChecks, TakeLater, WatchedKey
from .purgatories import PurgatoryGroup
from .purgatory import Purgatory
from .reaper import Reaper
from .snapshots import ParkedOperation, WatchListSnapshot
from .timer import MAX_DELAY_MS, Timer
from .timing_wheel import BucketSnapshot, LevelSnapshot, TimerEntry, TimingWheel
from .waiter import WaitAborted

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
