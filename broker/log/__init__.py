"""Partition logs in memory: segments of batches, leader epochs, producer state, retention and compaction.

Begin with `log.py`. `segment.py` is a run of batches with its indexes, `validator.py` checks a batch before it is
appended, `epochs.py` knows which leader epoch wrote what, `producer_state.py` which sequences idempotent producers
used, `transactions.py` where read_committed stops. `memory.py` is the cap: past it the oldest segments go.
"""
