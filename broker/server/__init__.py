"""Connections: bytes in, requests to their routes, answers out in the order of the requests.

Begin with `listener.py`, then `connection.py`, the shell around parts that know no event loop: `exchange.py` (the order
of answers), `deadlines.py` (when a client is too slow), `request_queue.py` (how much may wait), `turns.py` (how
connections share the loop). `peer.py` is a connection to another broker.
"""
