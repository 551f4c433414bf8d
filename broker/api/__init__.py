"""Handlers of Kafka's APIs: one file per API, named as in `protocol/messages/`, with its versions and gaps in its head.

A handler is a plain function `handle(…, request, reply)`: it replies now, or leaves the reply to a delayed operation.
`routes.py` finds the handlers, `registry.py` says what a registration has, `context.py` what handlers are given.
`answers.py` is the rule for answers that may be long, `parts.py` the one for requests that name thousands of things:
both work in steps, between which the broker answers other clients.
"""
