"""What consumer groups (KIP-848) and share groups (KIP-932) have in common: the coordinator assigns the partitions."""
