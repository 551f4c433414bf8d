"""Replicated partitions: appending, fetching, following, and the operations that wait for them."""
