"""The tools of operators: operations, the admin HTTP and its page, commands, scenes, metrics.

Begin with `operations/`: what an operator or a test does to a cluster is declared there once, a class each, and
becomes an HTTP route, a command, and a method of the test kit. `cluster.py` is the public `purgatorio.Cluster`: the
brokers of `purgatorio.broker.cluster` with their admin HTTP.
"""
