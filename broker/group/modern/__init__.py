"""What consumer groups (KIP-848) and share groups (KIP-932) have in common: the coordinator assigns the partitions.

`modern_group.py` is a group as its records make it, `update.py` what a request changes, `assigning.py` when and how
the target assignment is made (in steps), `sessions.py` when a silent member is removed.
"""
