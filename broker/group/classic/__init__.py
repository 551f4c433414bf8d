"""Groups of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup; their members assign the partitions."""
