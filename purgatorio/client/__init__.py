"""One small Kafka client, internal: for scenes, the simulator, the toy programs and the benchmarks.

Begin with `link.py`, a connection, and `client.py`, which finds leaders and coordinators over links that are passed in.
`produce`, `fetch`, `group`, `transaction` and `share` are what clients ask for over it. It sends what it is asked to
send, once: what to do after an error, and when, is the business of its users.
"""
