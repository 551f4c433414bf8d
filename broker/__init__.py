"""What answers Kafka's clients: brokers, what they keep, and how they agree.

Begin with `node/broker.py`, which puts one broker together, and `api/produce.py`, the handler that most requests
meet. A request passes `server` (bytes), `routing` (its route), `layers` (access, quotas, faults), `api` (its
handler), and then `replica`, a coordinator (`group`, `txn`, `share`) or the `metadata`. `cluster` has several brokers
in one process. Requests that must wait are operations of `purgatorio.purgatory`. Nothing here knows
`purgatorio.admin`.
"""
