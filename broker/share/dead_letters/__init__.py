"""Dead-letter topics of share groups (KIP-1191): where leaders copy records that are given up.

Begin with `queue.py`, which says what is copied and when; `backlog.py` keeps the order of one share partition,
`destination.py` says where to. A record is given up only when its copy is written.
"""
