"""What coordinators of groups and of transactions have in common: shards that live in the partitions of a topic."""
