"""Quotas: how much clients may send, fetch and change, and how long they wait when it was too much.

Begin with `client_quotas.py`. `entities.py` finds the quota of a client (KIP-55), `charging.py` charges each request
and mutes connections, `throttled_channel.py` is the delayed operation of a muted one. The arithmetic of rates is
`broker/time/rates.py`; the throttles of replication (KIP-73) are in `broker/replica/`.
"""
