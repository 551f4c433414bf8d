"""The share coordinator: the states of share partitions, which live in the partitions of `__share_group_state`."""
