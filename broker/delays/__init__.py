"""Delayed operations that have ended: the last ones for the page, and all of them as records and spans.

`finished.py` keeps a bounded ring of them. `recorder.py` produces them to `__delayed_operations`, whose own operations
it leaves out. `spans.py` makes OpenTelemetry spans of them, if `traces.endpoint` is set.
"""
