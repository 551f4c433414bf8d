"""Layers around the routes of handlers: access, quotas, faults.

A layer is there only while it is needed: a broker without ACLs, quotas and fault rules calls its handlers directly
(`broker/routing/route_layers.py`, docs/decisions/0014-layers-before-handlers.md).
"""
