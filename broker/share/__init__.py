"""Share groups (KIP-932): the state of their partitions, which a coordinator keeps, and how leaders come by it."""
