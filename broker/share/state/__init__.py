"""The share coordinator: the states of share partitions, which live in `__share_group_state`.

Begin with `coordinator.py`. `batches.py` merges what leaders write into the state that there is, `kept_state.py` is a
state as records make it (a snapshot, then updates), `upkeep.py` makes snapshots anew so that old records can go.
"""
