"""Share groups (KIP-932): their members take turns at the records of partitions, which the coordinator assigns."""
