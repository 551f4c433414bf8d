"""The common part of the coordinators of groups, transactions and share states.

A coordinator's state lives in the partitions of an internal topic. The leader of a partition is the coordinator of
the ids that are hashed to it: `shards.py` loads a shard when this broker is elected, in steps, and drops it when it
is elected no more. `coordinator_log.py` is how a coordinator writes: records appended with acks=-1, applied when they
are committed. `broker_calls.py` is how this broker asks those that lead something, here or there, until they answer.
"""
