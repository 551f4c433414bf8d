"""Consumer groups (KIP-848) and share groups (KIP-932): the coordinator assigns the partitions, by heartbeats.

Begin with `modern_groups.py`, the way of a heartbeat of either kind, which makes the target assignment when it is due
(in steps). `modern_group.py` is a group as its records make it, `records.py` the changes of a request as records,
`sessions.py` when a silent member is removed.
"""
