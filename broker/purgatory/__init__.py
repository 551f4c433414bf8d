"""Delayed operations: requests that wait for a condition or a deadline, parked without a thread or a task each.

Standard library only, and nothing else of this project: usable alone. See README.md beside this file.
"""

from broker.purgatory.actions import ActionQueue
from broker.purgatory.delayed_operation import DelayedOperation, FinishedOperation, Outcome
from broker.purgatory.purgatory import ParkedOperation, Purgatory, WatchListSnapshot
from broker.purgatory.reaper import Reaper
from broker.purgatory.timer import Timer
from broker.purgatory.timing_wheel import BucketSnapshot, LevelSnapshot, TimerEntry, TimingWheel

__all__ = [
    "ActionQueue",
    "BucketSnapshot",
    "DelayedOperation",
    "FinishedOperation",
    "LevelSnapshot",
    "Outcome",
    "ParkedOperation",
    "Purgatory",
    "Reaper",
    "Timer",
    "TimerEntry",
    "TimingWheel",
    "WatchListSnapshot",
]
