"""The admin HTTP: metrics, health, the JSON API and the live page, in the brokers' event loop.

Begin with `server.py` (how it runs) and `app.py` (what it answers). `router.py` makes the JSON routes of the
operations, `openapi.py` their document, `guard.py` and `tokens.py` say who may ask. `front.py` is the HTTP of a
cluster whose brokers are processes: it asks them, and `merging.py` makes one answer of theirs. `static/` is the page.
"""
