"""Replicated partitions: appends, fetches, followers, the high watermark, and the operations that wait for it.

Begin with `replica_manager.py`: all of a broker's replicas, and each way to append to them and to read them. Then
`partition.py`: one replica's role, log and followers, and the rules of a leader. `roles.py` gives replicas the roles
that an image says. `events.py` says which event wakes which operation. `producing/` writes, `fetching/` reads,
`following/` fetches from other leaders.
"""
