"""One small Kafka client, internal: for scenes, the simulator, the toy programs and the benchmarks.

Begin with `link.py`, a connection over asyncio's streams (`wire.py` has a blocking one), and `client.py`, which finds
leaders and coordinators over links that are passed in. `produce`, `fetch`, `group`, `transaction` and `share` build
requests and read answers. When a request is sent again, and what a failure ends, is mostly the decision of the users.
"""
