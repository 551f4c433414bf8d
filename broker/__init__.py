"""Brokers: they answer Kafka's clients, keep logs, groups and metadata, and agree on a leader for each partition.

Begin with `node/broker.py`, which puts one broker together, and `api/produce.py`, the handler that most requests
meet. A request passes `server` (bytes), `routing` (its route), `layers` (access, quotas, faults), `api` (its
handler), and then `replica`, a coordinator (`group`, `txn`, `share`) or the `metadata`. `cluster` has several brokers
in one process. Requests that must wait are operations of `purgatorio.purgatory`. Nothing here knows
`purgatorio.admin`.
"""
