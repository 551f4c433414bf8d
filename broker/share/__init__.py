"""Share groups (KIP-932) at the partitions' leaders: what members acquire, acknowledge, and get again.

Begin with `share_partition.py`: a partition as one group consumes it. `in_flight.py` has its records by state,
`acquiring.py` and `acknowledging.py` the rules, `acquisition_lock.py` the delayed operation of what a member has. The
state is kept by a share coordinator (`state/`), reached through `state_client.py`; records that are given up go to
`dead_letters/`.
"""
