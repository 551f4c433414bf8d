"""The group coordinator: members, rebalances and committed offsets, kept in `__consumer_offsets`.

Begin with `groups.py`, which puts it together. `shard.py` is one partition of the topic and the groups that its
records make; `offset_manager.py` and `txn_offset_manager.py` commit offsets, `group_cleaner.py` expires them. The
kinds of groups are `classic/` (members assign), `consumer/` (KIP-848) and `share/` (KIP-932); `modern/` has the way
of a heartbeat through the last two. `ClassicRequests` hands a request of the classic protocol to the kind of its group.
"""
