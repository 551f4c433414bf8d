"""Bytes to messages and back: the Kafka wire protocol, without sockets and without a clock.

Begin with `message.py`: a message is declared once for all its versions, and `compiler.py` makes a straight-line
codec of it. `messages/` has a file per API, `records.py` record batches, `framing.py` cuts a stream into frames,
`parts.py` takes requests apart by what their fields name. `versioned.py` and its users are the records of internal
topics.
"""
