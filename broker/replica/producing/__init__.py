"""Writes to partitions that this broker leads, and the requests that wait until followers have them.

`ReplicaManager.append` appends each batch by `writes.py`, and with acks=-1 parks a `DelayedProduce` under the
partitions' keys. Batches of transactions pass `transaction_guard.py` first, which asks the
transaction's coordinator (KIP-890).
"""
