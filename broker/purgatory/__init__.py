"""Delayed operations: requests that wait for a condition or a deadline, parked without a thread or a task each.

Standard library only, and nothing else of this project: usable alone. See README.md beside this file.
"""

from purgatorio.broker.purgatory.actions import ActionQueue
from purgatorio.broker.purgatory.delayed_operation import DelayedOperation, FinishedOperation, Outcome
from purgatorio.broker.purgatory.purgatory import ParkedOperation, Purgatory, WatchListSnapshot
from purgatorio.broker.purgatory.reaper import Reaper
from purgatorio.broker.purgatory.timer import Timer
from purgatorio.broker.purgatory.timing_wheel import BucketSnapshot, LevelSnapshot, TimerEntry, TimingWheel

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
