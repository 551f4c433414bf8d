"""Reads of partitions: for consumers, followers and fetch sessions, now or later.

`ReplicaManager.fetch` answers or parks a fetch by `fetches.py`; `delayed_fetch.py` waits until `min_bytes` can be read.
`reader.py` reads partitions within the limits of a request. `fetch_context.py` is the partitions of one request, and
which fetches wait for which partition, so that an append costs what changed; `fetch_session.py` is what a client's
fetches have in common (KIP-227).
"""
