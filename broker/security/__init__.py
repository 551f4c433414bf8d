"""Authentication of clients: SASL and TLS; how brokers know each other; ACLs, ready to be asked.

Begin with `sasl.py`, a connection's way to its principal, which knows no connection. `scram.py`, `plain.py` and
`oauthbearer.py` are the mechanisms; `tls.py` the contexts of listeners. `acl_index.py` finds the few ACLs that a
check needs. Nothing here knows an event loop.
"""
