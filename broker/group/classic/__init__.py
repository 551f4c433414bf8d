"""Groups of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup; their members assign the partitions.

Begin with `rebalances.py`, which has the operations of the Rebalance purgatory, too: a join waits for the other
members, a sync for the assignment of the leader. Then `joins.py`. `classic_group.py` is a group's state, which only its
methods change; `member.py` has the table of states (docs/states.md).
"""
