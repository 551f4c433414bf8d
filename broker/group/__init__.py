"""The group coordinator: members, rebalances and committed offsets, kept in the topic ``__consumer_offsets``."""
