"""Replicated partitions: appends, fetches, follower fetchers, and the delayed operations of them."""
