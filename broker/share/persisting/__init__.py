"""How this broker asks share coordinators, wherever they are: the persister of its leaders and group coordinator.

Begin with `coordinator_persister.py`. Calls about one group share a request (`requests.py`); a call that failed is a
delayed operation (`DelayedRetry`) until the next try, or until the coordinator has moved.
"""
