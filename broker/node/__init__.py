"""One broker, put together: what it listens on, keeps, coordinates, and does from time to time.

Begin with `broker.py`, which builds, connects, starts and stops the parts. `coordinators.py` has the coordinators,
`listeners.py` the listeners. `metadata_publisher.py` is what a new image changes here, `upkeep.py` the work of timers:
retention, lag, elections.
"""
