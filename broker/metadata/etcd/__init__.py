"""The metadata store on etcd: the brokers of several hosts share one cluster image there.

`store.py` reads and writes the image as keys (`broker/metadata/keys.py`), watches them, and keeps leases;
`gateway.py` speaks etcd's JSON gateway; `ClusterMembership` in `store.py` is how brokers know each other by their
secret.
"""
