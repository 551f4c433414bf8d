"""Replicated partitions: appends, fetches, followers, the high watermark, and the operations that wait for it.

Begin with `partition.py`: one replica's role, log and followers, and the rules of a leader. `replica_manager.py` has
all of a broker's replicas; `roles.py` gives them the roles that an image says. `events.py` says which event wakes
which operation. `producing/` writes, `fetching/` reads, `following/` fetches from other leaders.
"""
