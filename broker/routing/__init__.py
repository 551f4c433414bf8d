"""A request on its way to its handler, and its answer on the way back: the interface of `server` and `api`.

`request.py` has requests, replies, sessions and routes. `route_layers.py` puts layers around routes while they are
needed. `listings.py` has long answers made in steps, while their connection is muted.
"""
