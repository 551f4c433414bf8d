"""Reads of partitions: for consumers, followers and fetch sessions, now or later.

Begin with `fetches.py`, then `delayed_fetch.py`: a fetch waits until `min_bytes` can be read. `reader.py` reads one
partition within the limits of a request. `fetch_session.py` is what a client's fetches have in common (KIP-227);
`fetch_watch.py` knows which fetches wait for which partition, so that an append costs what changed.
"""
